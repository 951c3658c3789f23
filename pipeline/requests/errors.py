"""Errors of requests.

NotFound
└── UnknownRequest
Conflict
└── IdempotencyConflict   the same key came with another body
"""

from __future__ import annotations

from pipeline.errors import Conflict, NotFound


class UnknownRequest(NotFound):
    """There is no such request."""

    code, status = "unknown_request", 404


class IdempotencyConflict(Conflict):
    """The Idempotency-Key was used before with another body."""

    code, status = "idempotency_conflict", 409
