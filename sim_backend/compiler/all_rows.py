"""Masks and numbers on fake tensors: how many rows a mask picks, and which one a number names, is known on the device
alone, so that all are taken to be picked and the first one to be named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
_INDEXING = (aten.index.Tensor, aten.index_put.default, aten.index_put_.default)


class AllRows(TorchDispatchMode):
    """Boolean subscripts and `nonzero` give as many rows as there could be, and a number on the device is 0, instead of
    refusing to say."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if func is aten.nonzero.default:
            return torch.empty((args[0].numel(), args[0].dim()), dtype=torch.int64, device=args[0].device)
        if func is aten._local_scalar_dense.default:
            return 0.0 if args[0].is_floating_point() else 0
        if func in _INDEXING:
            args = (args[0], list(_subscripts(args[1])), *args[2:])
        return func(*args, **(kwargs or {}))


def _subscripts(indices: Sequence[torch.Tensor | None]) -> Iterator[torch.Tensor | None]:
    """A mask of n dimensions as n subscripts of one row per element of the mask."""
    for index in indices:
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            yield index
        else:
            yield from (torch.empty(index.numel(), dtype=torch.int64, device=index.device) for _ in index.shape)
