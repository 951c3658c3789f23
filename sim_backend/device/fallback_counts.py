"""Counts and warnings of CPU fallbacks. Apart from `fallback`, so that `import torch` need not load the device."""

from __future__ import annotations

import os
import threading
import warnings
from collections import Counter

from sim_backend.errors import FallbackWarning

_counts: Counter[str] = Counter()
_lock = threading.Lock()


def fallback_counts() -> dict[str, int]:
    """Operation ("aten.sin.default") -> how often it ran on the CPU in this process."""
    with _lock:
        return dict(_counts)


def reset_fallback_counts() -> None:
    """Start counting from zero."""
    with _lock:
        _counts.clear()


def note_fallback(op: str, text: str | None = None, stacklevel: int = 2) -> None:
    """Count a fallback of `op` and warn. `TORCH_SPYRE_FALLBACK_WARN=0` silences the warning, never the count."""
    with _lock:
        _counts[op] += 1
    if os.environ.get("TORCH_SPYRE_FALLBACK_WARN", "1") != "0":
        warnings.warn(text or f"{op} is falling back to cpu", FallbackWarning, stacklevel=stacklevel + 1)
