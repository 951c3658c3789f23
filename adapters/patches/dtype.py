"""P56: the dtype of the device run, and the probe that chooses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from ..errors import PatchParameters
from ..structure import find_blocks
from .base import Patch, PatchContext, Target, Undo, types_of

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
FP16_HEADROOM = 65504 / 8


@dataclass(frozen=True)
class RunDtype(Patch):
    """Names the dtype that weights and activations of the device parts have. Weights are cast after all surgery."""

    pattern: ClassVar[str] = "P56"
    mathematics: ClassVar[str] = "the same formula in another precision"
    exactness: ClassVar[str] = "bounded"
    bound: ClassVar[float | None] = 1e-2

    dtype: str = "float16"

    def match(self, model: nn.Module) -> list[Target]:
        """The blocks. Raises PatchParameters for an unknown dtype."""
        if self.dtype not in DTYPES:
            raise PatchParameters(f"P56: dtype {self.dtype!r} is not one of {sorted(DTYPES)}")
        return [Target(b.path, b.module) for b in find_blocks(model)]

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Nothing to change on the model: `adapt` reads the dtype and casts last."""
        self.match(model)
        return lambda: None

    def replaced(self, model: nn.Module) -> list[Any]:
        """The block classes."""
        return types_of(self.match(model))


def largest_activation(model: nn.Module, inputs: Mapping[str, torch.Tensor]) -> float:
    """The largest absolute value at any linear's or block's output of a stock CPU run in its own dtype."""
    largest = [0.0]

    def note(module: nn.Module, args: Any, output: Any) -> None:
        value = output[0] if isinstance(output, tuple) else output
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            largest[0] = max(largest[0], float(value.abs().max()))

    blocks = {id(b.module) for b in find_blocks(model)}
    watched = [m for m in model.modules() if isinstance(m, nn.Linear) or id(m) in blocks]
    handles = [m.register_forward_hook(note) for m in watched]
    try:
        with torch.no_grad():
            model(**inputs)
    finally:
        for handle in handles:
            handle.remove()
    return largest[0]


def choose_dtype(model: nn.Module, inputs: Mapping[str, torch.Tensor]) -> str:
    """`float16` if the largest activation leaves a factor of 8 below 65,504, else `bfloat16` (P56)."""
    return "float16" if largest_activation(model, inputs) < FP16_HEADROOM else "bfloat16"
