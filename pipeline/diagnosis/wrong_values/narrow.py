"""The 16-bit dtype that the model's code sees while it is searched.

The device stores float16 and bfloat16 alike, but code branches on them: some models look for infinities in float16
only, which the device refuses. Values are those of float16 either way: it keeps more of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

NARROW = (torch.float16, torch.bfloat16)
_seen: ContextVar[torch.dtype] = ContextVar("seen", default=torch.float16)


def narrow_dtype() -> torch.dtype:
    """The dtype of this search."""
    return _seen.get()


def narrow_name() -> str:
    """Its name as reports have it: "float16", "bfloat16"."""
    return str(narrow_dtype()).removeprefix("torch.")


@contextmanager
def searched_in(dtype: torch.dtype) -> Iterator[None]:
    """Inside, models are searched in `dtype`."""
    token = _seen.set(dtype)
    try:
        yield
    finally:
        _seen.reset(token)
