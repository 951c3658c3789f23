"""The internal allow context: inside it every operation computes, whatever the profile says.

For printing, saving and the like, which are host work done with device operations. Per thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_state = threading.local()


@contextmanager
def allowed() -> Iterator[None]:
    """Every operation computes inside; nothing is refused, warned about or counted."""
    outer = is_allowed()
    _state.on = True
    try:
        yield
    finally:
        _state.on = outer


def is_allowed() -> bool:
    """True inside `allowed()` on this thread."""
    return getattr(_state, "on", False)
