"""A query that is read by its model alone is what FastAPI reads: same values, same refusals, same document."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from fastapi import FastAPI, Query, Request
from fastapi.testclient import TestClient
from pydantic import BaseModel

from api.problems import add_problem_handlers
from api.rest.query import documented, query_of
from api.rest.schemas import CoverageQuery, ModelsQuery


def both_ways(model: type[BaseModel]) -> TestClient:
    """An application with a route that reads the query by FastAPI, and one that reads it by its model."""
    app = FastAPI()
    add_problem_handlers(app)

    def by_fastapi(query: Any) -> dict[str, Any]:
        found: dict[str, Any] = query.model_dump(mode="json")
        return found

    by_fastapi.__annotations__["query"] = Annotated[model, Query()]

    def by_model(request: Request) -> dict[str, Any]:
        return query_of(request, model).model_dump(mode="json")

    app.get("/by-fastapi")(by_fastapi)
    app.get("/by-model", openapi_extra=documented(model))(by_model)
    return TestClient(app)


@pytest.mark.parametrize(
    ("model", "query"),
    [
        *((ModelsQuery, query) for query in (
            "", "limit=7", "limit=0", "limit=201", "limit=x", "limit=", "limit=7&limit=9", "limit=1e3", "limit=%20 7",
            "search=a%00b", "search=", "search=%C3%A9", f"search={'a' * 201}", "outcome=failed", "outcome=no",
            "stale=1", "stale=yes", "stale=maybe", "supported=true", "supported=", "adapter=-1", "adapter=3",
            "sort=name&reverse=on", "sort=nothing", "family=a%2Fb", "profile=profile-2026-08", "profile=..",
            f"cursor={'a' * 601}", "nobody=1", "limit=x&sort=nothing", "limit[]=7", "wanted=1",
        )),
        *((CoverageQuery, query) for query in ("", "by=op", "by=nothing", "by=", "by=op&by=family", "profile=x&y=1")),
    ],
)  # fmt: skip
def test_a_query_is_read_and_refused_as_fastapi_does(model: type[BaseModel], query: str) -> None:
    client = both_ways(model)
    theirs, ours = (client.get(f"/{way}?{query}") for way in ("by-fastapi", "by-model"))
    assert (ours.status_code, _told(ours.json())) == (theirs.status_code, _told(theirs.json()))


def _told(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name != "instance"}


@pytest.mark.parametrize("model", [ModelsQuery, CoverageQuery])
def test_the_document_describes_it_as_fastapi_does(model: type[BaseModel]) -> None:
    paths = both_ways(model).get("/openapi.json").json()["paths"]
    theirs, ours = (paths[f"/{way}"]["get"]["parameters"] for way in ("by-fastapi", "by-model"))
    assert ours == theirs
    assert {field["name"] for field in ours} == set(model.model_fields)
