"""The word that a worker is to stop, from the Celery parent to its pool processes: one shared byte, made before forks.

A pool process that works on a run ends its child and gives the lease back, without a delivery being counted: another
worker takes the run at once instead of when the lease runs out.
"""

from __future__ import annotations

import mmap


class ShuttingDown(Exception):
    """The worker is to stop: the run is given back."""


_byte = mmap.mmap(-1, 1)


def announce() -> None:
    """Say it, in the parent."""
    _byte[0] = 1


def is_announced() -> bool:
    """True in every process forked from the one that announced it."""
    return _byte[0] == 1


def raise_if_announced() -> None:
    """Raise `ShuttingDown` once it is announced."""
    if is_announced():
        raise ShuttingDown
