"""Named places where a test can break this process; elsewhere they cost one comparison. A leaf but for the settings.

`SPYRE_FACTORY_FAULT=before_commit:kill:3` kills the process when it passes `before_commit` the third time; `stop`
stops it as SIGSTOP does, `fail` raises there. The settings refuse the variable outside test mode.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

from pipeline.database.errors import DatabaseUnavailable
from pipeline.settings import get_settings

POINTS = frozenset({"before_commit", "after_commit", "sent_marked", "claimed", "child_ended"})
_passed: Counter[str] = Counter()


def fault_point(name: str) -> None:
    """Break here if the settings say so. Raises `DatabaseUnavailable` for the action `fail`."""
    fault = get_settings().fault
    if fault is None:
        return
    point, action, nth = (*fault.split(":"), "1")[:3]
    if point != name:
        return
    _passed[name] += 1
    if _passed[name] == int(nth):
        _ACTIONS[action]()


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _fail() -> None:
    raise DatabaseUnavailable("a fault that a test asked for")


_ACTIONS = {"kill": _kill, "stop": _stop, "fail": _fail}
