"""The sandbox's one error: there is none that works here. What drafted code does inside is never an error."""

from __future__ import annotations

from agents import errors


class SandboxUnavailable(errors.SandboxUnavailable):
    """No working sandbox on this machine, so nothing has run. `remedy` says in one sentence what the operator does."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason}. Remedy: {remedy}")
        self.reason = reason
        self.remedy = remedy
