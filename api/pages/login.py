"""Logging in by a one-time link, and out. A link is redeemed by a POST only: who merely looks at it uses nothing up."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response

from api.errors import SignOnRefused
from api.pages.rendering import render
from api.security import oidc
from api.security.identity import NOBODY, Anybody, Caller, check_form, cookie_name, identify, set_cookie, who_counts
from pipeline.database.accounts import LIFETIMES, NotLoggedIn, redeem_login, revoke, session_of
from pipeline.database.models import SessionKind
from pipeline.database.rates import count_write
from pipeline.database.unit_of_work import unit_of_work
from pipeline.settings import get_settings

router = APIRouter()
Given = Annotated[str, Query(max_length=4_000)]
SIGN_ON, SIGN_ON_S = "spyre_sign_on", 600
LOGINS_PER_MINUTE = 30
"""Attempts from one address."""
Token = Annotated[str, Form(max_length=200)]


@router.get("/login")
def show_login(request: Request, t: Annotated[str, Query(max_length=200)] = "") -> Response:
    """The page behind a login link: one button."""
    sign_on = get_settings().oidc_issuer is not None
    return render(request, "login.html", token=t, sign_on=sign_on, signed_on=False)


@router.post("/login")
def log_in(request: Request, caller: Anybody, t: Token, csrf: Token = "") -> Response:
    """Redeem the link, begin a session, go to the overview. Raises `NotLoggedIn` for a link that is used up."""
    check_form(request, caller, csrf)
    count_write(who_counts(request, NOBODY), LOGINS_PER_MINUTE)
    with unit_of_work() as session:
        issued = redeem_login(session, t.strip())
    response = RedirectResponse("/", 303)
    lifetime_s = int(LIFETIMES[SessionKind.COOKIE].total_seconds())
    set_cookie(request, response, cookie_name(get_settings()), issued.token, lifetime_s)
    return response


@router.get("/login/oidc")
def begin_sign_on(request: Request) -> Response:
    """Go to the issuer; what has to come back is kept in a cookie for ten minutes."""
    begun = oidc.begin(get_settings())
    response = RedirectResponse(begun.url, 303)
    secure = request.url.scheme == "https"
    # `lax`: the issuer's answer is a visit from another site, which a strict cookie would not come along with
    response.set_cookie(SIGN_ON, begun.kept, SIGN_ON_S, path="/login", httponly=True, samesite="lax", secure=secure)
    return response


@router.get("/login/oidc/callback")
def end_sign_on(request: Request, code: Given = "", state: Given = "", error: Given = "") -> Response:
    """Begin a session for whom the issuer vouches for."""
    count_write(who_counts(request, NOBODY), LOGINS_PER_MINUTE)
    if error or not code:
        raise SignOnRefused(f"The issuer refused the login: {error or 'no code'}.")
    issued = oidc.finish(get_settings(), code, state, request.cookies.get(SIGN_ON, ""))
    # a redirect would still count as the other site's visit, without the session's strict cookie: our own page goes on
    response = render(request, "login.html", token="", signed_on=True)
    response.headers["Refresh"] = "0; url=/"
    lifetime_s = int(LIFETIMES[SessionKind.COOKIE].total_seconds())
    set_cookie(request, response, cookie_name(get_settings()), issued.token, lifetime_s)
    response.delete_cookie(SIGN_ON, path="/login")
    return response


@router.post("/logout")
def log_out(request: Request, csrf: Token = "") -> Response:
    """End the session."""
    caller: Caller = identify(request)
    check_form(request, caller, csrf)
    name = cookie_name(get_settings())
    _end(request.cookies.get(name, ""))
    response = RedirectResponse("/", 303)
    response.delete_cookie(name, path="/", httponly=True, samesite="strict")
    return response


def _end(token: str) -> None:
    with unit_of_work() as session:
        try:
            revoke(session, session_of(session, token, SessionKind.COOKIE))
        except NotLoggedIn:
            return
