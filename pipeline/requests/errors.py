"""Errors of requests.

NotFound
└── UnknownRequest
BadInput
├── IdempotencyConflict   the same key came with another body
└── BadConfig             the configuration sent instead of a model cannot be used
EnvironmentProblem
└── HubUnreachable        the model is in no catalogue and the Hub cannot be asked
FactoryError
└── QuotaExceeded         the requester has asked for too much
"""

from __future__ import annotations

from pipeline.errors import BadInput, EnvironmentProblem, FactoryError, NotFound


class UnknownRequest(NotFound):
    """There is no such request."""

    code, status = "unknown_request", 404


class IdempotencyConflict(BadInput):
    """The Idempotency-Key was used before with another body."""

    code, status = "idempotency_conflict", 422


class BadConfig(BadInput):
    """The configuration cannot be used."""

    code, status = "bad_config", 422


class HubUnreachable(EnvironmentProblem):
    """The Hub has to be asked about this model and cannot be reached."""

    code, status = "hub_unreachable", 424


class QuotaExceeded(FactoryError):
    """The requester has too many requests open, or has made too many."""

    code, status = "quota_exceeded", 429
    retry_after_s = 60
