"""What no request gets past: hosts, origins, sizes, sessions, tokens, roles."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from fastapi.testclient import TestClient

from pipeline.database.models import PrincipalKind, Role
from pipeline.settings import get_settings

ORIGIN = "http://127.0.0.1:8000"
Token = Callable[..., dict[str, str]]
BODY = {"model": "a/bert-one"}


def csrf_of(page: str) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', page)
    assert found is not None
    return found.group(1)


# --- hosts, origins, sizes, headers


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil:8000", "", "[::2]:8000"])
def test_a_foreign_host_is_refused(client: TestClient, host: str) -> None:
    answer = client.get("/api/v1/models", headers={"Host": host})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_host")


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "LOCALHOST:8000", "[::1]:8000"])
def test_loopback_names_are_served(client: TestClient, host: str) -> None:
    assert client.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1:8000"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": ORIGIN, "Sec-Fetch-Site": "cross-site"},
        {"Cookie": "anything=1"},
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/requests", "/requests", "/login", "/logout", "/review/1/approve"])
def test_a_write_from_elsewhere_is_refused(client: TestClient, path: str, headers: dict[str, str]) -> None:
    answer = client.post(path, headers=headers, json=BODY)
    assert (answer.status_code, answer.json()["code"]) == (403, "cross_origin")


def test_a_program_without_cookies_needs_no_origin(client: TestClient) -> None:
    assert client.post("/api/v1/requests", json=BODY).json()["code"] == "hub_unreachable"


def test_a_body_that_is_too_large_is_refused(client: TestClient) -> None:
    big = b'{"model": "' + b"a" * 1_100_000 + b'"}'
    headers = {"Content-Type": "application/json"}
    stated = client.post("/api/v1/requests", content=big, headers=headers)
    assert (stated.status_code, stated.json()["code"]) == (413, "body_too_large")
    counted = client.post("/api/v1/requests", content=iter([big[:600_000], big[600_000:]]), headers=headers)
    assert (counted.status_code, counted.json()["code"]) == (413, "body_too_large")


@pytest.mark.parametrize(
    "path", ["/", "/models", "/login", "/api/v1/models", "/nope", "/api/v1/nope", "/static/app.css"]
)
def test_every_answer_carries_the_security_headers(client: TestClient, path: str) -> None:
    headers = client.get(path, headers={"Accept": "text/html"}).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert "server" not in headers


def test_a_refused_request_carries_them_too(client: TestClient) -> None:
    answer = client.get("/", headers={"Host": "evil.example"})
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


def test_pages_are_not_stored_but_versioned_files_are(client: TestClient) -> None:
    page = client.get("/", headers={"Accept": "text/html"})
    assert page.headers["cache-control"] == "no-store"
    sheet = re.search(r'href="(/static/app\.css\?v=[0-9a-f]+)"', page.text)
    assert sheet is not None
    assert "immutable" in client.get(sheet.group(1)).headers["cache-control"]
    assert client.get("/static/app.css").headers["cache-control"] == "no-cache"


def test_only_listed_files_are_static(client: TestClient) -> None:
    assert client.get("/static/..%2fapp.py").status_code == 404
    assert client.get("/static/__init__.py").status_code == 404


# --- sessions


def test_looking_at_a_login_link_uses_nothing_up(client: TestClient, login_token: str) -> None:
    pages = [client.get("/login", params={"t": login_token}, headers={"Accept": "text/html"}) for _ in range(3)]
    assert all(page.status_code == 200 for page in pages)
    assert not any("spyre_session" in page.headers.get("set-cookie", "") for page in pages)
    done = client.post("/login", data={"t": login_token, "csrf": csrf_of(pages[0].text)}, headers={"Origin": ORIGIN})
    assert done.status_code == 303


def test_a_login_link_works_once(browser: TestClient, login_token: str) -> None:
    page = browser.get("/login", params={"t": login_token})
    again = browser.post("/login", data={"t": login_token, "csrf": csrf_of(page.text)})
    assert again.status_code == 401
    assert "used or expired" in again.text


def test_the_session_cookie_is_out_of_reach_of_scripts_and_other_sites(client: TestClient, login_token: str) -> None:
    page = client.get("/login", params={"t": login_token}, headers={"Accept": "text/html"})
    done = client.post("/login", data={"t": login_token, "csrf": csrf_of(page.text)}, headers={"Origin": ORIGIN})
    cookie = done.headers["set-cookie"].lower()
    assert cookie.startswith("spyre_session_8000=")
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


def test_a_login_form_of_another_browser_is_refused(client: TestClient, login_token: str) -> None:
    page = client.get("/login", params={"t": login_token}, headers={"Accept": "text/html"})
    client.cookies.clear()
    done = client.post("/login", data={"t": login_token, "csrf": csrf_of(page.text)}, headers={"Origin": ORIGIN})
    assert (done.status_code, done.json()["code"]) == (403, "form_expired")


@pytest.mark.parametrize(
    "path", ["/requests", "/logout", "/review/1/approve", "/review/1/claim", "/adapters/1/withdraw"]
)
@pytest.mark.parametrize("csrf", ["", "x" * 43])
def test_a_form_without_the_sessions_token_is_refused(browser: TestClient, path: str, csrf: str) -> None:
    form = {"csrf": csrf, "reason": "because"}
    if path == "/requests":
        form = {"csrf": csrf, "model": "a/bert-one", "key": "k" * 24}
    if path == "/logout":
        form = {"csrf": csrf}
    answer = browser.post(path, data=form)
    assert answer.status_code == 403
    assert "form_expired" in answer.text


def test_rest_by_cookie_needs_the_sessions_token_in_a_header(browser: TestClient) -> None:
    refused = browser.post("/api/v1/reviews/1/claim")
    assert (refused.status_code, refused.json()["code"]) == (403, "form_expired")
    csrf = csrf_of(browser.get("/").text)
    passed_on = browser.post("/api/v1/reviews/1/claim", headers={"X-CSRF-Token": csrf})
    assert passed_on.json()["code"] == "unknown_candidate"


def test_logging_out_ends_the_session_on_the_server(browser: TestClient) -> None:
    cookies = dict(browser.cookies)
    done = browser.post("/logout", data={"csrf": csrf_of(browser.get("/").text)})
    assert done.status_code == 303
    browser.cookies.update(cookies)
    assert "Log in" in browser.get("/").text


# --- tokens and roles


def test_deciding_needs_somebody_even_on_loopback(client: TestClient) -> None:
    for decision in ("claim", "approve", "reject", "changes", "strike"):
        answer = client.post(f"/api/v1/reviews/1/{decision}", json={"reason": "x"})
        assert (answer.status_code, answer.json()["code"]) == (401, "login_required")
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("kind", list(PrincipalKind))
def test_deciding_needs_the_role_of_reviewer(client: TestClient, token: Token, kind: PrincipalKind) -> None:
    headers = token(f"some {kind}", kind, Role.VIEWER, Role.REQUESTER, Role.ADMIN)
    answer = client.post("/api/v1/reviews/1/claim", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")


@pytest.mark.parametrize("header", ["Bearer nonsense", "Bearer ", "Basic YTpi", "bearer x y"])
def test_a_wrong_token_is_refused_even_where_nobody_may_read(client: TestClient, header: str) -> None:
    answer = client.get("/api/v1/models", headers={"Authorization": header})
    assert (answer.status_code, answer.json()["code"]) == (401, "login_required")


@pytest.fixture(
    params=[
        {"SPYRE_FACTORY_BROKER_URL": "redis://localhost/0"},
        {"SPYRE_FACTORY_HOST": "0.0.0.0"},
        {"SPYRE_FACTORY_DATABASE_URL": "same"},
    ],
    ids=["broker", "every interface", "database"],
)
def closed(request: pytest.FixtureRequest, database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """The same installation, no longer embedded or no longer on loopback."""
    from api.app import create_app

    for name, value in request.param.items():
        monkeypatch.setenv(name, database if value == "same" else value)
    get_settings.cache_clear()
    with TestClient(create_app(), base_url=ORIGIN, follow_redirects=False) as opened:
        yield opened


READS = ("/api/v1/models", "/api/v1/coverage", "/api/v1/reviews", "/api/v1/adapters", "/metrics")
PAGES = ("/", "/models", "/review", "/requests", "/adapters", "/sweeps")


def test_elsewhere_reading_needs_a_token(closed: TestClient, token: Token) -> None:
    viewer = token("reader", PrincipalKind.SERVICE, Role.VIEWER)
    for path in READS:
        assert closed.get(path).status_code == 401
        assert closed.get(path, headers=viewer).status_code == 200
    for path in PAGES:
        answer = closed.get(path, headers={"Accept": "text/html"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert closed.get("/healthz").status_code == closed.get("/readyz").status_code == 200


def test_elsewhere_requesting_needs_the_role(closed: TestClient, token: Token) -> None:
    assert closed.post("/api/v1/requests", json=BODY).status_code == 401
    viewer = closed.post("/api/v1/requests", json=BODY, headers=token("v", PrincipalKind.AGENT, Role.VIEWER))
    assert viewer.json()["code"] == "not_allowed"
    requester = token("r", PrincipalKind.SERVICE, Role.REQUESTER)
    assert closed.post("/api/v1/requests", json=BODY, headers=requester).json()["code"] == "hub_unreachable"


def test_a_connection_to_another_interface_is_not_open(database: str) -> None:
    from api.app import create_app

    with TestClient(create_app(), base_url="http://10.1.2.3:8000") as client:
        assert client.get("/api/v1/models", headers={"Host": "localhost"}).status_code == 401


# --- how often


def test_too_many_writes_are_refused_with_the_time_to_wait(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPYRE_FACTORY_WRITES_PER_MINUTE", "1")
    get_settings.cache_clear()
    answers = [client.post("/api/v1/requests", json=BODY) for _ in range(4)]
    assert "hub_unreachable" in answers[0].text
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert (refused.json()["code"], refused.headers["content-type"]) == ("rate_limited", "application/problem+json")
    assert 0 < int(refused.headers["retry-after"]) <= 60
    assert client.get("/api/v1/models").status_code == 200, "reading is not counted"
