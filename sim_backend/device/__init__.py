"""The simulated device "spyre": a PrivateUse1 device whose memory is host memory.

start()                          load it and fix the profile; torch calls this at the first use
ext                              the C++ module: aliases, conversions, layout tags, memory statistics
eager.compute(func, args, kw)    one ATen operation: decode, run on the CPU, round, encode
allowed()                        a context in which nothing is refused, warned about or counted
intermediates()                  a context whose allocations count against the pool of intermediates
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sim_backend.device.allow import allowed
from sim_backend.device.start import start

__all__ = ["allowed", "intermediates", "start"]


@contextmanager
def intermediates() -> Iterator[None]:
    """Allocations of this thread inside count against the profile's pool of intermediates, beside the segments."""
    from sim_backend.device import ext

    outer = ext.exchange_intermediate(True)
    try:
        yield
    finally:
        ext.exchange_intermediate(outer)
