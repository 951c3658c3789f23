"""Masks by broadcasting, while a model is captured: export has no word for the indexing that `vmap` stands in for.

transformers makes masks by its own rules with broadcast indices, and those with a rule of the model's (Gemma 3's, which
lets a token see both ways) with `torch.vmap` over the same indices. Such rules compute with indices alone, so both give
the same mask; one that does not fails to broadcast, and the capture with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from torch import Tensor
from transformers import masking_utils

INDEXING, EXPANSION = "TransformGetItemToIndex", "_vmap_expansion_sdpa"


@contextmanager
def masks_by_broadcast() -> Iterator[None]:
    """Inside, transformers makes every mask by broadcasting."""
    before = {name: getattr(masking_utils, name) for name in (INDEXING, EXPANSION)}
    setattr(masking_utils, INDEXING, nullcontext)
    setattr(masking_utils, EXPANSION, broadcast)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(masking_utils, name, value)


def broadcast(rule: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The rule over all indices at once: bool [batch, heads, queries, keys] from four int64 vectors of indices."""

    def over_all(*indices: Tensor) -> Tensor:
        axes: Any = masking_utils._non_vmap_expansion_sdpa(*indices)
        return rule(*axes).expand([len(index) for index in indices])

    return over_all
