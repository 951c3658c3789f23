"""Being told to stop: SIGINT and SIGTERM set a flag that loops look at.

A plain attribute, not a `threading.Event`: setting an event from a signal handler deadlocks when the signal arrives
while the same thread is inside `Event.wait`.
"""

from __future__ import annotations

import signal
import time

STEP_S = 0.1


class Stopped(BaseException):
    """Raised where a wait has to end because a signal has arrived."""


class StopFlag:
    """False until SIGINT or SIGTERM arrives. Made in the main thread; it replaces the handlers of both signals."""

    def __init__(self) -> None:
        self._stopped = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._set)

    def _set(self, *_: object) -> None:
        self._stopped = True

    def is_set(self) -> bool:
        """True once a signal has arrived."""
        return self._stopped

    def raise_if_set(self) -> None:
        """Raise `Stopped` once a signal has arrived."""
        if self._stopped:
            raise Stopped

    def wait(self, seconds: float) -> bool:
        """Sleep for `seconds`, or until a signal arrives; True if one has."""
        until = time.monotonic() + seconds
        while not self._stopped and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, STEP_S))
        return self._stopped
