"""Work here while a child works: two cores, two processes; and the CPU seconds that each stage cost."""

from __future__ import annotations

import resource
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
Done = Callable[[], bool]
Meanwhile = Callable[[Done], None]
"""What is done beside a child; it asks whether the child has ended, to go on after it."""


def nothing(_done: Done) -> None:
    """Beside a child that is only waited for."""


def beside(work: Callable[[], T], meanwhile: Meanwhile) -> T:
    """The result of `work`, which waits for a child, in a thread, and `meanwhile` in this one.

    An error of `work` comes before one of `meanwhile`: the child is what is judged. The thread lives as long as the
    child does, which its parent-death signal needs.
    """
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(work)
        try:
            meanwhile(waiting.done)
        finally:
            found = waiting.result()
    return found


class Clock:
    """CPU seconds by stage: this process with all its threads, and children of ours that have ended."""

    def __init__(self) -> None:
        self.cpu_s: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """CPU seconds of this process until the block ends."""
        began = time.process_time()
        try:
            yield
        finally:
            self.cpu_s[name] += time.process_time() - began

    @contextmanager
    def child(self, name: str) -> Iterator[None]:
        """CPU seconds of the children that end within the block, their own children included."""
        began = _children_s()
        try:
            yield
        finally:
            self.cpu_s[name] += _children_s() - began

    def to_dict(self) -> dict[str, float]:
        """Stage to CPU seconds, to the hundredth."""
        return {name: round(seconds, 2) for name, seconds in self.cpu_s.items()}


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
