"""Faults the scripted endpoint can show on request, so that a drafter's answer to each of them can be tested."""

from __future__ import annotations

import threading
from enum import StrEnum


class Fault(StrEnum):
    """What goes wrong. `no_tools` and `refuse_tools` are properties of an endpoint, the others happen to a request."""

    RATE_LIMIT = "429"
    SERVER_ERROR = "500"
    MALFORMED_BODY = "malformed_body"
    MALFORMED_ARGUMENTS = "malformed_arguments"
    ENDLESS = "endless"
    NO_TOOLS = "no_tools"
    REFUSE_TOOLS = "refuse_tools"
    NO_USAGE = "no_usage"
    TRUNCATED = "truncated"


LASTING = frozenset({Fault.NO_TOOLS, Fault.REFUSE_TOOLS, Fault.NO_USAGE})


class FaultPlan:
    """Shows `fault` at the first `times` chat requests; lasting faults always. Safe between threads."""

    def __init__(self, fault: Fault | None = None, times: int = 1) -> None:
        self.fault, self._left = fault, times
        self._lock = threading.Lock()

    def next(self) -> Fault | None:
        """The fault of the next chat request."""
        if self.fault is None or self.fault in LASTING:
            return self.fault
        with self._lock:
            self._left -= 1
            return self.fault if self._left >= 0 else None
