"""Errors of the HTTP side.

BadInput
├── BadCursor               a page cursor that no answer contained
├── BadHost                 the Host header names a host this service does not serve
├── CrossOrigin             an unsafe request that did not come from this service's own pages
├── FormExpired             the form's token is missing or not this session's
├── BodyTooLarge
├── PreconditionRequired    a decision without the ETag of what was seen
└── PreconditionFailed      the ETag is not that of what is stored now
FactoryError
├── LoginRequired           no valid session or token
├── SignOnRefused           the issuer did not vouch for the caller, or the login began elsewhere
└── TooManyStreams          the principal has too many event streams open
"""

from __future__ import annotations

from pipeline.errors import BadInput, FactoryError


class BadCursor(BadInput):
    """The cursor is not one that this list handed out."""

    code, status = "bad_cursor", 422


class BadHost(BadInput):
    """The Host header is not allowed."""

    code, status = "bad_host", 400


class CrossOrigin(BadInput):
    """The request came from another site."""

    code, status = "cross_origin", 403


class FormExpired(BadInput):
    """The form is not this session's."""

    code, status = "form_expired", 403


class BodyTooLarge(BadInput):
    """The body is larger than this service reads."""

    code, status = "body_too_large", 413


class PreconditionRequired(BadInput):
    """A decision must name what was seen."""

    code, status = "precondition_required", 428


class PreconditionFailed(BadInput):
    """What was seen is not what is stored now."""

    code, status = "stale_approval", 412


class LoginRequired(FactoryError):
    """This needs a session or a token."""

    code, status = "login_required", 401


class SignOnRefused(FactoryError):
    """The single sign-on did not end in a session."""

    code, status = "sign_on_refused", 401


class TooManyStreams(FactoryError):
    """Too many event streams are open."""

    code, status = "too_many_streams", 429
    retry_after_s = 10
