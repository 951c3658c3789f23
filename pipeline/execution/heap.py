"""Memory that nobody needs any more goes back to the system."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from functools import lru_cache


def give_back() -> None:
    """Collects what refers to itself and returns the free pages of the heap, where the C library has a call for it.

    A comparison of documents refers to itself and holds a model in fp64; the collector may not come for minutes. glibc
    keeps what lies below a block in use.
    """
    gc.collect()
    _trim()(0)


@lru_cache
def _trim() -> Callable[[int], int]:
    return getattr(ctypes.CDLL(None), "malloc_trim", lambda _kept: 0)
