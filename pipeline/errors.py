"""The factory's error tree.

FactoryError
├── BadInput            the caller's fault: what was given cannot be used (status 4xx)
│   └── CheckpointProblem   a model's fault, with its stored failure kind
├── Conflict            the state does not allow it (409)
└── EnvironmentProblem  our fault or the machine's: never counts against a model (503)

Every message is one sentence that names the object and the remedy.
"""

from __future__ import annotations

from typing import ClassVar


class FactoryError(Exception):
    """Base of all errors of the service. `code` is stable, `status` is the HTTP status of the answer.

    `retry_after_s` says when the same may succeed; None where waiting alone changes nothing.
    """

    code: ClassVar[str] = "factory_error"
    status: ClassVar[int] = 500
    retry_after_s: int | None = None


class BadInput(FactoryError):
    """What the caller gave cannot be used."""

    code, status = "bad_input", 422


class CheckpointProblem(BadInput):
    """A model cannot be judged for a reason of its own. `kind` is a stored failure kind."""

    code, status = "checkpoint_problem", 422

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class NotFound(BadInput):
    """The named object does not exist."""

    code, status = "not_found", 404


class Conflict(FactoryError):
    """The object's state does not allow the operation."""

    code, status = "conflict", 409


class EnvironmentProblem(FactoryError):
    """Our fault or the machine's: it never counts against a model and is tried again."""

    code, status = "environment_problem", 503
