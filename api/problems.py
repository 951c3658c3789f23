"""Every error as a problem document (RFC 9457) for programs, as a page for people. Codes are stable, texts are not."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from api.errors import LoginRequired
from api.pages.rendering import render
from pipeline.database.accounts import NotLoggedIn
from pipeline.errors import FactoryError

MEDIA_TYPE = "application/problem+json"
HTTP_CODES = {
    404: "not_found",
    405: "method_not_allowed",
    400: "bad_request",
    413: "body_too_large",
    415: "unsupported_media_type",
}
REMEDIES = {
    "not_found": "Check the address; the pages in the menu list everything there is.",
    "unknown_model": "Look for it in the list of models, or request it.",
    "stale_approval": "Somebody or something changed it meanwhile. Read it again, then decide.",
    "claimed_by_other": "Another reviewer is at work on it. Wait until the claim runs out, or ask them.",
    "not_reviewable": "Somebody decided already. The page of the candidate shows what.",
    "form_expired": "Go back, load the page again and send the form once more.",
    "cross_origin": "Open the dashboard itself and send the form from there.",
    "not_allowed": "Ask an administrator for the role.",
    "not_logged_in": "`spyre-factory up` prints a new link. Log in, then go back: what you typed is still in the form.",
    "hub_unreachable": "Set HF_ENDPOINT to a mirror, or send the configuration instead of the name.",
    "rate_limited": "Wait a minute, and send fewer writes.",
    "quota_exceeded": "Wait until some of your requests have ended, or cancel them.",
    "too_many_streams": "Close some of the event streams you have open.",
    "reason_missing": "Go back and say why, in one sentence.",
}
REMEDY_BY_STATUS = {
    401: "Log in; then go back in your browser: what you typed is still in the form.",
    403: "Ask an administrator for the role.",
    404: "Check the address; the pages in the menu list everything there is.",
    409: "Somebody or something changed it meanwhile. Load the page again, then decide.",
    413: "Send less at once.",
    422: "Go back, change what is named above, and send it again.",
    429: "Wait a minute, then try again.",
    500: "Try again; if it stays so, whoever runs this installation finds the reason in the log of the API.",
    503: "Try again in a minute.",
}
"""What to do about a problem that has no sentence of its own."""
log = structlog.get_logger("api")


class FieldProblem(BaseModel):
    """One field that cannot be used."""

    where: str
    what: str


class Problem(BaseModel):
    """A problem document (RFC 9457)."""

    type: str = Field(examples=["urn:spyre-factory:problem:unknown_model"])
    title: str
    status: int
    detail: str
    code: str = Field(description="Stable name of the problem.")
    instance: str = Field(description="Path of the request.")
    errors: list[FieldProblem] | None = None


PROBLEMS: dict[int | str, dict[str, Any]] = {
    "4XX": {
        "description": "A problem document",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    },
    "5XX": {
        "description": "A problem document",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    },
}
"""What every REST route may answer besides its success."""


def add_problem_handlers(app: FastAPI) -> None:
    """Let every error of this process end as a problem document or an error page."""
    app.add_exception_handler(FactoryError, _factory_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _unexpected)


def problem_of(error: FactoryError, path: str) -> Problem:
    """The document for one of our errors; the title is the first line of its class's docstring."""
    title = (inspect.getdoc(type(error)) or error.code).splitlines()[0].rstrip(".")
    return _problem(error.code, error.status, title, str(error), path)


def _problem(
    code: str, status: int, title: str, detail: str, path: str, errors: Sequence[FieldProblem] | None = None
) -> Problem:
    found = list(errors) if errors else None
    kind = f"urn:spyre-factory:problem:{code}"
    return Problem(type=kind, title=title, status=status, detail=detail, code=code, instance=path, errors=found)


def _factory_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, FactoryError)
    if isinstance(error, LoginRequired) and not _for_programs(request) and request.method == "GET":
        return RedirectResponse("/login", 303)
    found = answer(request, problem_of(error, request.url.path))
    if error.retry_after_s is not None:
        found.headers["Retry-After"] = str(error.retry_after_s)
    return found


def _validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    fields = [FieldProblem(where=".".join(str(p) for p in e["loc"]), what=e["msg"]) for e in error.errors()]
    detail = "; ".join(f"{f.where}: {f.what}" for f in fields)
    return answer(
        request, _problem("invalid_request", 422, "The request cannot be used", detail, request.url.path, fields)
    )


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    title = HTTPStatus(error.status_code).phrase
    code = HTTP_CODES.get(error.status_code, f"http_{error.status_code}")
    found = answer(request, _problem(code, error.status_code, title, str(error.detail), request.url.path))
    found.headers.update(error.headers or {})
    return found


def _unexpected(request: Request, error: Exception) -> Response:
    log.error("request_failed", path=request.url.path, error=type(error).__name__)
    detail = "Something broke on our side; the log of the API says what."
    return answer(request, _problem("internal_error", 500, "Our fault", detail, request.url.path))


def answer(request: Request, problem: Problem) -> Response:
    """The problem as JSON for programs, as a page for people."""
    if _for_programs(request):
        headers = {"WWW-Authenticate": "Bearer"} if problem.status == 401 else None
        return JSONResponse(problem.model_dump(exclude_none=True), problem.status, headers, MEDIA_TYPE)
    remedy = REMEDIES.get(problem.code) or REMEDY_BY_STATUS.get(problem.status, "")
    needs_login = problem.code in (LoginRequired.code, NotLoggedIn.code)
    return render(request, "problem.html", problem.status, problem=problem, remedy=remedy, needs_login=needs_login)


def _for_programs(request: Request) -> bool:
    path = request.url.path
    return path.startswith(("/api/", "/metrics", "/healthz", "/readyz")) or "text/html" not in request.headers.get(
        "accept", ""
    )
