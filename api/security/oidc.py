"""Single sign-on by OpenID Connect (authorization code with PKCE): off unless an issuer is set.

What is believed is the signed id token, checked against the issuer's keys, this client, the nonce and the time. Who a
person is follows from the subject; what they may do, from a claim and a table of the settings, at every login anew.
"""

from __future__ import annotations

import json
import secrets
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from api.errors import SignOnRefused
from api.security.identity import is_loopback
from pipeline.database.accounts import Issued, ensure_principal, issue, set_roles
from pipeline.database.models import PrincipalKind, Role, SessionKind
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import EnvironmentProblem, NotFound
from pipeline.settings import Settings

CALLBACK = "/login/oidc/callback"
SCOPE = "openid profile email"
ALGORITHMS = ["RS256", "PS256", "ES256", "EdDSA"]
TIMEOUT_S = 5.0


class Begun(NamedTuple):
    """Where the browser goes, and what comes back with it in a cookie of ours."""

    url: str
    kept: str


def begin(settings: Settings) -> Begun:
    """Begin a login at the issuer. Raises `NotFound` where none is set, `EnvironmentProblem` if it is away."""
    found = _discover(settings)
    kept = {name: secrets.token_urlsafe(32) for name in ("state", "nonce", "verifier")}
    with _client(settings) as client:
        url, _ = client.create_authorization_url(
            found["authorization_endpoint"],
            state=kept["state"],
            nonce=kept["nonce"],
            code_verifier=kept["verifier"],
        )
    return Begun(str(url), json.dumps(kept))


def finish(settings: Settings, code: str, state: str, kept: str) -> Issued:
    """The session of whoever the issuer vouches for. Raises `SignOnRefused`, `EnvironmentProblem`, `NotFound`."""
    found = _discover(settings)
    expected = _kept(kept)
    if not secrets.compare_digest(state.encode(), expected["state"].encode()):
        raise SignOnRefused("This login did not begin here: go to the login page and begin again.")
    claims = _claims(settings, found, _id_token(settings, found, code, expected["verifier"]), expected["nonce"])
    roles = roles_of(settings, claims)
    if not roles:
        raise SignOnRefused("You are known, and hold no role here: ask an administrator.")
    with unit_of_work() as session:
        principal = ensure_principal(session, f"sso {claims['sub']}"[:120], PrincipalKind.HUMAN, [])
        set_roles(session, principal, roles)
        return issue(session, principal, SessionKind.COOKIE, "single sign-on")


def roles_of(settings: Settings, claims: dict[str, Any]) -> list[Role]:
    """The roles that the table of the settings gives for the values of the claim."""
    held = claims.get(settings.oidc_claim) or []
    values = [held] if isinstance(held, str) else [str(value) for value in held]
    return sorted({Role(role) for value in values for role in settings.oidc_roles.get(value, ())})


def _kept(text: str) -> dict[str, str]:
    try:
        found = json.loads(text)
        return {name: str(found[name]) for name in ("state", "nonce", "verifier")}
    except (ValueError, KeyError, TypeError) as error:
        raise SignOnRefused("This login has taken too long: go to the login page and begin again.") from error


def _discover(settings: Settings) -> dict[str, Any]:
    if not settings.oidc_issuer:
        raise NotFound("Single sign-on is not set up here: use a login link.")
    document = _get(settings, f"{settings.oidc_issuer.rstrip('/')}/.well-known/openid-configuration")
    if document.get("issuer") != settings.oidc_issuer:
        raise EnvironmentProblem(f"The issuer calls itself {document.get('issuer')!r}: set OIDC_ISSUER to that.")
    return document


def _get(settings: Settings, url: str) -> dict[str, Any]:
    import httpx

    parts = urlsplit(url)
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise EnvironmentProblem("OIDC_ISSUER has to be an https address.")
    try:
        return dict(httpx.get(url, timeout=TIMEOUT_S).raise_for_status().json())
    except (httpx.HTTPError, ValueError) as error:
        raise EnvironmentProblem(f"The issuer {settings.oidc_issuer} cannot be asked: {error}.") from error


def _client(settings: Settings) -> Any:
    from authlib.integrations.httpx_client import OAuth2Client

    return OAuth2Client(
        settings.oidc_client_id,
        settings.oidc_client_secret,
        redirect_uri=f"{settings.public_url.rstrip('/')}{CALLBACK}",
        scope=SCOPE,
        code_challenge_method="S256",
        timeout=TIMEOUT_S,
    )


def _id_token(settings: Settings, found: dict[str, Any], code: str, verifier: str) -> str:
    import httpx
    from authlib.integrations.base_client import OAuthError

    try:
        with _client(settings) as client:
            token = client.fetch_token(found["token_endpoint"], code=code, code_verifier=verifier)
    except (httpx.HTTPError, OAuthError) as error:
        raise SignOnRefused(f"The issuer did not accept this login: {error}.") from error
    if not token.get("id_token"):
        raise SignOnRefused("The issuer answered without an id token.")
    return str(token["id_token"])


def _claims(settings: Settings, found: dict[str, Any], token: str, nonce: str) -> dict[str, Any]:
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    wanted: dict[str, Any] = {"iss": settings.oidc_issuer, "aud": settings.oidc_client_id, "nonce": nonce}
    options: dict[str, Any] = {name: {"essential": True, "value": value} for name, value in wanted.items()}
    options |= {name: {"essential": True} for name in ("sub", "exp")}
    registry = jwt.JWTClaimsRegistry(leeway=30, **options)
    try:
        keys: Any = _get(settings, found["jwks_uri"])
        claims = jwt.decode(token, KeySet.import_key_set(keys), algorithms=ALGORITHMS).claims
        registry.validate(claims)
    except (JoseError, ValueError, KeyError) as error:
        raise SignOnRefused(f"The issuer's id token cannot be believed: {error}.") from error
    return dict(claims)
