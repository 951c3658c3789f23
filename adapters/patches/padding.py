"""P22: intermediate sizes padded with zeros to whole sticks. P28: transposed linears as plain ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch.nn.functional as F
from torch import nn
from transformers.pytorch_utils import Conv1D

from ..errors import PatchDoesNotApply, PatchParameters
from ..reversal import Reversal
from ..structure import find_blocks
from .base import Patch, PatchContext, Target, Undo, types_of
from .split import linear_of


class FeedForward(NamedTuple):
    """Paths below a block's part: linears that write the intermediate size, and the one that reads it."""

    up: tuple[str, ...]
    down: str


FEED_FORWARDS = (
    FeedForward(("gate_proj", "up_proj"), "down_proj"),
    FeedForward(("wi_0", "wi_1"), "wo"),
    FeedForward(("wi",), "wo"),
    FeedForward(("fc1",), "fc2"),
    FeedForward(("lin1",), "lin2"),
    FeedForward(("intermediate.dense",), "output.dense"),
    FeedForward(("ffn",), "ffn_output"),
    FeedForward(("dense_h_to_4h",), "dense_4h_to_h"),
)


@dataclass(frozen=True)
class PadIntermediate(Patch):
    """Gives W_up (and the gate, and their biases) zero rows and W_down zero columns: `size` becomes `padded`."""

    pattern: ClassVar[str] = "P22"
    mathematics: ClassVar[str] = "the zero columns take nothing of act(0), whatever the activation is"

    size: int = 0
    padded: int = 0

    def match(self, model: nn.Module) -> list[Target]:
        """The feed-forward parts of that size. Raises PatchDoesNotApply if there is none."""
        if not 0 < self.size < self.padded:
            raise PatchParameters(f"P22: cannot pad {self.size!r} to {self.padded!r}")
        blocks = [(b.path, p, m) for b in find_blocks(model) for p, m in b.module.named_modules()]
        found = [Target(f"{path}.{inner}" if inner else path, m) for path, inner, m in blocks if self._row(m)]
        if not found:
            raise PatchDoesNotApply(f"P22: no feed-forward part of known form has an intermediate size of {self.size}")
        return found

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Replaces the Parameters and the sizes."""
        undo, more = Reversal(), self.padded - self.size
        for target in self.match(model):
            row = self._row(target.module)
            assert row is not None
            for name in row.up:
                linear: Any = target.module.get_submodule(name)
                for key, value in list(linear.named_parameters()):
                    sides = (0, 0, 0, more) if key == "weight" else (0, more)
                    undo.set_parameter(linear, key, _frozen(F.pad(value.detach(), sides)))
                undo.set_attribute(linear, "out_features", self.padded)
            down: Any = target.module.get_submodule(row.down)
            undo.set_parameter(down, "weight", _frozen(F.pad(down.weight.detach(), (0, more))))
            undo.set_attribute(down, "in_features", self.padded)
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The classes of the feed-forward parts."""
        return types_of(self.match(model))

    def _row(self, module: nn.Module) -> FeedForward | None:
        return next((row for row in FEED_FORWARDS if self._fits(module, row)), None)

    def _fits(self, module: nn.Module, row: FeedForward) -> bool:
        linears = [_linear(module, name) for name in (*row.up, row.down)]
        if any(linear is None for linear in linears):
            return False
        return all(m.out_features == self.size for m in linears[:-1]) and linears[-1].in_features == self.size


def _linear(module: nn.Module, path: str) -> Any:
    found: Any = module
    for name in path.split("."):
        found = found._modules.get(name) if found is not None else None
    return found if type(found) is nn.Linear else None


def _frozen(value: Any) -> nn.Parameter:
    return nn.Parameter(value, requires_grad=False)


@dataclass(frozen=True)
class PlainLinears(Patch):
    """Replaces linears whose weight lies as [in, out] by plain ones; a fused one that is split later stays one."""

    pattern: ClassVar[str] = "P28"
    mathematics: ClassVar[str] = "x W + b with W given as its transpose"

    def match(self, model: nn.Module) -> list[Target]:
        """Every transposed linear. Raises PatchDoesNotApply if there is none."""
        targets = [Target(p, m) for p, m in model.named_modules() if type(m) is Conv1D]
        if not targets:
            raise PatchDoesNotApply("P28: the model has no transposed linear")
        return targets

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Puts a linear in each place."""
        undo = Reversal()
        for target in self.match(model):
            stock: Any = target.module
            parent, _, name = target.path.rpartition(".")
            parts = {"weight": stock.weight.detach().t(), "bias": stock.bias.detach()}
            undo.set_module(model.get_submodule(parent), name, linear_of(parts))
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The class of the transposed linear."""
        return types_of(self.match(model))
