"""Who asks. A bearer token or a cookie session names a principal; on loopback in the embedded default, nobody may read
and request too. Deciding always needs a principal with the role: the services check that again.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.responses import Response
from sqlalchemy.orm import Session

from api.errors import FormExpired, LoginRequired
from pipeline.database.accounts import NotAllowed, NotLoggedIn, known_by, roles_from
from pipeline.database.models import Principal, Role, SessionKind
from pipeline.database.rates import count_write
from pipeline.settings import Settings, get_settings

CSRF_HEADER = "x-csrf-token"
CSRF_FIELD = "csrf"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True)
class Caller:
    """The principal of a request. `name` is None for nobody; `csrf_token` is set for cookie sessions only."""

    principal_id: int | None = None
    name: str | None = None
    roles: frozenset[Role] = frozenset()
    csrf_token: str | None = None
    expires_at: str | None = None

    @property
    def can_review(self) -> bool:
        """True if decisions are open to the caller."""
        return Role.REVIEWER in self.roles

    @property
    def is_known(self) -> bool:
        """True if somebody is logged in."""
        return self.principal_id is not None


NOBODY = Caller()


def cookie_name(settings: Settings) -> str:
    """The session cookie's name: with the port, because browsers share cookies between the ports of a host."""
    return f"spyre_session_{settings.port}"


def form_cookie_name(settings: Settings) -> str:
    """The name of the cookie that forms of nobody are bound to."""
    return f"spyre_form_{settings.port}"


def identify(request: Request) -> Caller:
    """The caller. Raises `NotLoggedIn` for a bearer token that is not valid; a dead cookie is nobody's."""
    cached: Caller | None = getattr(request.state, "caller", None)
    if cached is None:
        cached = request.state.caller = _identify(request)
    return cached


def _identify(request: Request) -> Caller:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme:
        if scheme.lower() != "bearer":
            raise LoginRequired("Only bearer tokens are understood: `Authorization: Bearer TOKEN`.")
        return _caller_of(token.strip(), SessionKind.BEARER)
    cookie = request.cookies.get(cookie_name(get_settings()))
    try:
        return _caller_of(cookie, SessionKind.COOKIE) if cookie else NOBODY
    except LoginRequired:
        return NOBODY


def _caller_of(token: str, kind: SessionKind) -> Caller:
    try:
        known = known_by(token, kind)
    except NotLoggedIn as error:
        raise LoginRequired(str(error)) from error
    roles = roles_from(set((known.roles or "").split(",")) - {""})
    return Caller(known.principal_id, known.name, roles, known.csrf_token, known.expires_at.isoformat())


def is_open(request: Request) -> bool:
    """True on loopback in the embedded default: reading and requesting need no token."""
    settings = get_settings()
    embedded = settings.database_url is None and settings.broker_url is None
    server = request.scope.get("server")
    return embedded and is_loopback(settings.host) and server is not None and is_loopback(server[0])


def is_loopback(host: str) -> bool:
    """True for an address of this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def reader(request: Request) -> Caller:
    """Somebody who may read. Raises `LoginRequired`, `NotAllowed`."""
    return _allowed(request, Role.VIEWER)


def requester(request: Request) -> Caller:
    """Somebody who may request. Raises `LoginRequired`, `NotAllowed`; `FormExpired` for a cookie without its token."""
    return _checked(request, _allowed(request, Role.REQUESTER))


def owner(request: Request) -> Caller:
    """Somebody known, for what is their own. Raises `LoginRequired`; `FormExpired` for a cookie without its token."""
    caller = _checked(request, identify(request))
    if not caller.is_known:
        raise LoginRequired("This belongs to somebody: log in, or send `Authorization: Bearer TOKEN`.")
    _require(caller, Role.VIEWER)
    return caller


def decider(request: Request) -> Caller:
    """Somebody logged in who may review. Raises `LoginRequired`, `NotAllowed`, `FormExpired`."""
    caller = identify(request)
    if not caller.is_known:
        raise LoginRequired("Deciding needs a session or a reviewer's token: log in with the link that `up` printed.")
    _require(caller, Role.REVIEWER)
    return _checked(request, caller)


def require_reviewer(caller: Caller) -> None:
    """Raises `NotAllowed` unless the caller holds the role of a reviewer, which no agent can hold."""
    _require(caller, Role.REVIEWER)


def _allowed(request: Request, role: Role) -> Caller:
    caller = identify(request)
    if caller.is_known:
        _require(caller, role)
    elif not is_open(request):
        raise LoginRequired("This needs a session or a token: log in, or send `Authorization: Bearer TOKEN`.")
    return caller


def _require(caller: Caller, role: Role) -> None:
    if role not in caller.roles:
        raise NotAllowed(f"{caller.name!r} does not hold the role {role.value!r}.")


def _checked(request: Request, caller: Caller) -> Caller:
    """REST with a cookie needs the session's token in a header; forms carry it in a field, checked by `check_form`."""
    if request.method not in SAFE_METHODS:
        count_write(who_counts(request, caller), get_settings().writes_per_minute)
    by_cookie = caller.csrf_token is not None and request.url.path.startswith("/api/")
    if by_cookie and request.method not in SAFE_METHODS:
        _same(request.headers.get(CSRF_HEADER, ""), caller.csrf_token or "")
    return caller


def who_counts(request: Request, caller: Caller) -> str:
    """Whose writes are counted: the principal's, or those of nobody at one address."""
    if caller.is_known:
        return f"principal {caller.principal_id}"
    return f"address {request.client.host if request.client else 'unknown'}"[:80]


def _same(given: str, wanted: str) -> None:
    if not wanted or not hmac.compare_digest(given.encode(), wanted.encode()):
        raise FormExpired("The form's token is missing or belongs to another session.")


def form_token(request: Request, caller: Caller) -> str:
    """The token a form on this page carries: the session's, or one bound to a cookie that `bind_form` sets."""
    if caller.csrf_token is not None:
        return caller.csrf_token
    secret = request.cookies.get(form_cookie_name(get_settings())) or getattr(request.state, "form_secret", None)
    if secret is None:
        secret = request.state.form_secret = secrets.token_urlsafe(32)
    return _derived(secret)


def bind_form(request: Request, response: Response) -> None:
    """Set the cookie behind the form token of this answer, if it needed a new one."""
    secret = getattr(request.state, "form_secret", None)
    if secret is not None:
        set_cookie(request, response, form_cookie_name(get_settings()), secret)


def check_form(request: Request, caller: Caller, given: str) -> None:
    """Raise `FormExpired` unless the form's token is the caller's."""
    if caller.csrf_token is not None:
        _same(given, caller.csrf_token)
        return
    secret = request.cookies.get(form_cookie_name(get_settings()), "")
    _same(given, _derived(secret) if secret else "")


def _derived(secret: str) -> str:
    return hashlib.sha256(b"form:" + secret.encode()).hexdigest()


def set_cookie(request: Request, response: Response, name: str, value: str, max_age_s: int | None = None) -> None:
    """Set a cookie that scripts cannot read and other sites cannot send."""
    secure = request.url.scheme == "https"
    response.set_cookie(name, value, max_age=max_age_s, httponly=True, samesite="strict", secure=secure, path="/")


def principal_of(session: Session, caller: Caller) -> Principal:
    """The caller's row in this transaction."""
    return session.get_one(Principal, caller.principal_id)


Reader = Annotated[Caller, Depends(reader)]
Requester = Annotated[Caller, Depends(requester)]
Owner = Annotated[Caller, Depends(owner)]
Decider = Annotated[Caller, Depends(decider)]
Anybody = Annotated[Caller, Depends(identify)]
