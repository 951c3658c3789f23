"""Tensors of another layout than strided do not reach the device: "Non strided layout not supported" (facts 3.7)."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

# Made of device tensors by composite code, which comes before a backend's fallback
_COMPRESSED = (
    "_sparse_compressed_tensor_unsafe",
    *(f"_sparse_{kind}_tensor_unsafe" for kind in ("csr", "csc", "bsr", "bsc")),
)
_libraries: list[torch.library.Library] = []


def install() -> None:
    """Refuse every sparse tensor on the device. Idempotent."""
    if _libraries:
        return
    everything = torch.library.Library("_", "IMPL")
    for key in ("SparsePrivateUse1", "SparseCsrPrivateUse1"):
        everything.fallback(_refuse, key)
    compressed = torch.library.Library("aten", "IMPL", "SparseCsrPrivateUse1")
    for name in _COMPRESSED:
        compressed.impl(name, _refuse)
    _libraries.extend([everything, compressed])


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError("Non strided layout not supported")
