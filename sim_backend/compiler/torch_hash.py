"""Inductor's hash of torch's own sources, kept on disk beside its cache: made once per installed torch.

The hash is in every cache key and takes 0.7 s, in each process that compiles. It is kept under a digest of size and
times of every file that it reads, so an edited or another torch is hashed anew.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import torch
from torch._inductor import codecache
from torch._inductor.runtime.cache_dir_utils import cache_dir

_NO_MODULES = frozenset({"__pycache__", "bin", "include", "lib", "share"})  # folders of torch that hold no module
_BYTES = hashlib.sha256().digest_size


@cache
def begin() -> None:
    """Give Inductor the kept hash; without one, let it begin to hash in a thread of its own."""
    kept = read(_place())
    if kept is None:
        codecache.torch_key.prefetch()  # type: ignore[attr-defined]
        return
    try:
        codecache.torch_key.set(kept)  # type: ignore[attr-defined]
    except RuntimeError:  # somebody has asked before, so it is known
        return


@cache
def keep() -> None:
    """Write the hash for later processes, unless it is there."""
    place = _place()
    if read(place) is None:
        place.parent.mkdir(parents=True, exist_ok=True)
        codecache.write_atomic(str(place), codecache.torch_key())


def read(place: Path) -> bytes | None:
    """The hash kept at `place`; None without one or if the file is damaged."""
    try:
        kept = place.read_bytes()
    except OSError:
        return None
    return kept if len(kept) == _BYTES else None


def stated(root: str) -> str:
    """sha256 over path, size and times of every file under torch's folder `root` that may be a source."""
    lines = "\n".join(sorted(_lines(root)))
    return hashlib.sha256(f"{torch.__version__}\n{lines}".encode()).hexdigest()


@cache
def _place() -> Path:
    return Path(cache_dir()) / "torch_key" / stated(str(Path(torch.__file__).parent))


def _lines(folder: str) -> Iterator[str]:
    for entry in os.scandir(folder):
        if entry.is_dir():
            if entry.name not in _NO_MODULES:
                yield from _lines(entry.path)
        else:
            status = entry.stat()
            yield f"{entry.path} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
