"""Who may call what: every route by every role and by nobody, on an installation that is not open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from api.app import create_app
from pipeline.database.accounts import ensure_principal, issue
from pipeline.database.models import PrincipalKind, Role, SessionKind
from pipeline.database.unit_of_work import unit_of_work
from pipeline.settings import get_settings

ANYBODY = {
    ("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/login"), ("POST", "/login"), ("POST", "/logout"),
    ("GET", "/login/oidc"), ("GET", "/login/oidc/callback"), ("GET", "/static/{name}"), ("GET", "/favicon.ico"),
}  # fmt: skip
SIGNED_IN = {
    ("POST", "/settings/tokens"), ("POST", "/settings/sessions/{number}/revoke"),
    ("POST", "/api/v1/tokens"), ("DELETE", "/api/v1/tokens/{number}"),
}  # fmt: skip
"""Everybody with a role, for what is their own."""
REQUESTERS = {
    ("POST", "/api/v1/requests"), ("POST", "/api/v1/requests/{request_id}/cancel"),
    ("POST", "/requests"),
    ("POST", "/api/v1/evidence/{number}/replay"), ("POST", "/evidence/{number}/replay"),
}  # fmt: skip
REVIEWERS = {
    *(("POST", f"/api/v1/reviews/{{number}}/{verb}") for verb in ("claim", "approve", "reject", "changes", "strike")),
    ("GET", "/api/v1/blind-reviews/next"),
    ("POST", "/api/v1/blind-reviews/{number}"),
    ("POST", "/review/{number}/{decision}"),
    *(("POST", f"/api/v1/rules/{{number}}/{verb}") for verb in ("accept", "reject")),
    ("POST", "/rules/{number}/{decision}"),
    ("POST", "/adapters/{number}/withdraw"),
    ("POST", "/api/v1/adapters/{number}/withdraw"),
    ("POST", "/blind/{number}"),
}
MAY_REQUEST, MAY_DECIDE = {Role.REQUESTER, Role.ADMIN}, {Role.REVIEWER}
IN_PATHS = {
    "tokens/{number}": "tokens/99",  # the first one is that of the test itself
    "{number}": "1", "{request_id}": "00000000-0000-4000-8000-000000000000", "{digest}": "0" * 64,
    "{model:path}": "a/bert", "{name:path}": "a/bert", "{name}": "profile-2026-08", "{decision}": "approve",
}  # fmt: skip


def routes_of(routes: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Method and path of every route, those of included routers too."""
    for route in routes:
        if isinstance(route, APIRoute):
            yield from ((method, route.path) for method in route.methods - {"HEAD"})
        elif included := getattr(route, "original_router", None):
            yield from routes_of(included.routes)


ROUTES = sorted(routes_of(create_app().routes))


@pytest.fixture
def closed(database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """An installation on every interface: nobody is let in without a token."""
    monkeypatch.setenv("SPYRE_FACTORY_HOST", "0.0.0.0")
    get_settings.cache_clear()
    with TestClient(create_app(), base_url="http://127.0.0.1:8000", follow_redirects=False) as opened:
        yield opened


def allowed(method: str, path: str, role: Role | None) -> bool:
    if (method, path) in ANYBODY:
        return True
    if (method, path) in REQUESTERS:
        return role in MAY_REQUEST
    if (method, path) in REVIEWERS:
        return role in MAY_DECIDE
    return role is not None


def turned_away(client: TestClient, method: str, path: str, headers: dict[str, str]) -> bool:
    for name, value in IN_PATHS.items():
        path = path.replace(name, value)
    client.cookies.clear()  # a page's cookie would make the next write a browser's
    answer = client.request(method, path, headers=headers)
    to_login = answer.status_code == 303 and answer.headers["location"].startswith("/login")
    refused = any(code in answer.text for code in ("login_required", "not_allowed"))
    assert answer.status_code < 500
    return to_login or (answer.status_code in (401, 403) and refused)


def test_every_route_that_writes_has_a_line_in_the_table() -> None:
    known = ANYBODY | SIGNED_IN | REQUESTERS | REVIEWERS
    assert [route for route in ROUTES if route[0] != "GET" and route not in known] == []
    assert sorted(known - set(ROUTES)) == []
    assert len(ROUTES) > 50


@pytest.mark.parametrize("role", [None, *Role])
def test_every_route_lets_in_whom_the_table_names(closed: TestClient, role: Role | None) -> None:
    headers = {}
    if role is not None:
        with unit_of_work() as session:
            principal = ensure_principal(session, f"a {role}", PrincipalKind.HUMAN, (role,))
            headers = {"Authorization": f"Bearer {issue(session, principal, SessionKind.BEARER, 'test').token}"}
    wrong = [r for r in ROUTES if turned_away(closed, *r, headers) is allowed(*r, role)]
    assert wrong == []
