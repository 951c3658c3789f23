"""The application: REST under /api/v1 and the dashboard. `create_app()` has no effect but its result."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError

from api.events import StreamSlots
from api.examples import add_examples
from api.feeds import Feeds
from api.kept import Kept
from api.pages import router as pages
from api.problems import PROBLEMS, Problem, add_problem_handlers
from api.rest import (
    PREFIX,
    accounts,
    adapters,
    bench,
    blind,
    costs,
    findings,
    messages,
    models,
    operations,
    profiles,
    requests,
    reviews,
    rules,
    runs,
    sweeps,
)
from api.security.middleware import Guard
from api.warming import warmed
from pipeline.settings import get_settings

DISTRIBUTION = "spyre-adapter-factory"
ABOUT = (
    "Which embedding models run on the simulated Spyre, and the adapters that make them run. Verdicts hold for the "
    "named device profile, not for a card. Not an IBM product. Errors are problem documents (RFC 9457)."
)


def create_app() -> FastAPI:
    """The FastAPI application for the settings of this process; imports neither torch nor transformers."""
    app = Application(
        title="Spyre adapter factory",
        version=_version(),
        description=ABOUT,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=warmed,
    )
    rest = APIRouter(dependencies=[Depends(refuse_unknown_query)], responses=PROBLEMS)
    nouns = (models, findings, requests, reviews, blind, rules, adapters, sweeps, runs, profiles, bench, costs)
    for noun in (*nouns, accounts, messages):
        rest.include_router(noun.router)
    rest.include_router(operations.router)
    app.include_router(rest)
    app.include_router(pages.router, include_in_schema=False)
    add_problem_handlers(app)
    app.state.kept = Kept()
    app.state.feeds = Feeds()
    app.state.streams = StreamSlots(get_settings().event_streams)
    app.add_middleware(Guard, allowed_hosts=get_settings().allowed_hosts)
    operations.install_metrics(app)
    return app


class Application(FastAPI):
    """FastAPI whose OpenAPI document also says what it cannot see: the problem document, and how callers are known."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._query_fields: dict[tuple[str, str], frozenset[str]] = {}

    def openapi(self) -> dict[str, Any]:
        """The document, made once."""
        if self.openapi_schema is None:
            document = super().openapi()
            components = document.setdefault("components", {})
            problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
            components.setdefault("schemas", {}).update({**problem.pop("$defs", {}), "Problem": problem})
            components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{"bearer": []}, {}]
            _drop_default_validation_answers(document)
            add_examples(document)
            self.openapi_schema = document
        return self.openapi_schema

    def query_fields(self, path: str, method: str) -> frozenset[str]:
        """The names in the document of what may be asked for on a route; looked up once."""
        if (path, method) not in self._query_fields:
            operation = self.openapi()["paths"].get(path, {}).get(method, {})
            names = (p["name"] for p in operation.get("parameters", ()) if p["in"] == "query")
            self._query_fields[path, method] = frozenset(names)
        return self._query_fields[path, method]


def _drop_default_validation_answers(document: dict[str, Any]) -> None:
    """FastAPI announces its own 422 form; ours are problem documents, announced as 4XX."""
    for methods in document["paths"].values():
        for operation in methods.values():
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)


async def refuse_unknown_query(request: Request) -> None:
    """Refuse a query field that the route does not have: a misspelt filter must not answer with everything."""
    known = request.app.query_fields(request.scope["route"].path_format, request.method.lower())
    unknown = sorted(set(request.query_params) - known)
    if unknown:
        what = {"type": "extra_forbidden", "loc": ("query", unknown[0]), "msg": "Extra inputs are not permitted"}
        raise RequestValidationError([what])


def _version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "0"
