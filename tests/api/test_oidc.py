"""Single sign-on: only a login that began here, vouched for by the issuer's key, becomes a session with its roles."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response
from joserfc.jwk import RSAKey

from pipeline.database.models import Principal
from pipeline.database.unit_of_work import reading
from pipeline.settings import get_settings

from .issuer import Issuer, issuer

BROWSER = {"Accept": "text/html"}


@pytest.fixture
def there(database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    with issuer() as found:
        monkeypatch.setenv("SPYRE_FACTORY_OIDC_ISSUER", found.url)
        monkeypatch.setenv("SPYRE_FACTORY_OIDC_ROLES", '{"reviewers": ["reviewer"], "users": ["requester"]}')
        get_settings.cache_clear()
        found.claims = {"groups": ["users", "reviewers", "others"]}
        yield found


def log_in(client: TestClient, there: Issuer, **over: Any) -> Response:
    """Go to the issuer and come back."""
    begun = client.get("/login/oidc", headers=BROWSER)
    asked = {name: values[0] for name, values in parse_qs(urlsplit(begun.headers["location"]).query).items()}
    there.claims = {"nonce": asked["nonce"], **there.claims}
    challenge = asked["code_challenge"]
    answer = client.get("/login/oidc/callback", params={"code": "c", "state": asked["state"], **over}, headers=BROWSER)
    if there.asked:
        verifier = there.asked["code_verifier"][0]
        digest = hashlib.sha256(verifier.encode()).digest()
        assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == challenge
    return answer


def roles() -> set[str]:
    with reading() as session:
        found = session.query(Principal).filter(Principal.name == "sso u-1").one()
        return {row.role for row in found.roles}


def test_a_login_becomes_a_session_with_the_roles_of_its_groups(client: TestClient, there: Issuer) -> None:
    answer = log_in(client, there)
    assert (answer.status_code, answer.headers["refresh"]) == (200, "0; url=/")
    assert roles() == {"reviewer", "requester"}
    assert client.get("/api/v1/tokens").status_code == 200
    there.asked.clear()
    there.claims = {"groups": "users"}
    log_in(client, there)
    assert roles() == {"requester"}, "a group that was left takes its role along"


def test_who_holds_no_role_is_not_let_in(client: TestClient, there: Issuer) -> None:
    there.claims = {"groups": ["others"]}
    answer = log_in(client, there)
    assert answer.status_code == 401
    assert "no role here" in answer.text
    assert client.get("/api/v1/tokens").status_code == 401


@pytest.mark.parametrize(
    "claims",
    [{"aud": "another"}, {"iss": "http://127.0.0.1:1"}, {"nonce": "another"}, {"exp": int(time.time()) - 3600}],
)
def test_a_token_that_is_not_for_this_login_is_refused(
    claims: dict[str, Any], client: TestClient, there: Issuer
) -> None:
    there.claims |= claims
    answer = log_in(client, there)
    assert answer.status_code == 401
    assert "cannot be believed" in answer.text


def test_a_token_of_another_key_is_refused(client: TestClient, there: Issuer) -> None:
    there.signing_key = RSAKey.generate_key(2048, parameters={"kid": "one"})
    assert log_in(client, there).status_code == 401


def test_a_login_that_began_elsewhere_or_was_refused_is_none(client: TestClient, there: Issuer) -> None:
    assert log_in(client, there, state="another").status_code == 401
    assert there.asked == {}, "no code is sent for it"
    assert client.get("/login/oidc/callback", params={"error": "access_denied"}, headers=BROWSER).status_code == 401
    client.cookies.clear()
    assert client.get("/login/oidc/callback", params={"code": "c", "state": "s"}, headers=BROWSER).status_code == 401


def test_it_is_off_unless_an_issuer_is_set(client: TestClient) -> None:
    assert client.get("/login/oidc", headers=BROWSER).status_code == 404
    assert "single sign-on" not in client.get("/login", headers=BROWSER).text
