"""P14 to P17: rotary positions from the host, and the rotation as a matrix product."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from ..errors import PatchDoesNotApply
from ..rebinding import calls_by_name, global_of, rebind
from ..reversal import Reversal
from ..structure import head_size_of, position_table
from .base import PHASE_POSITIONS, HostCall, Patch, PatchContext, Target, Undo, types_of

APPLY, HALF = "apply_rotary_pos_emb", "rotate_half"
SLICE_SIZE = "rotary_ndims"

Turn = tuple[torch.Tensor, torch.Tensor]
"""sin [batch, length, head size] and the matrix [head size, head size] of the quarter turn."""


@dataclass(frozen=True)
class RotateByMatrix(Patch):
    """Turns queries and keys by x*cos + (x @ T)*sin: no slice, no cat, no negation of a part.

    T is the stock quarter turn of the identity. cos and sin are computed by the stock module, with its scaling (P16)
    and its frequency sets (P15), but on the host in fp32. Lanes that stock leaves alone (P17) have cos 1 and sin 0.
    """

    pattern: ClassVar[str] = "P14"
    mathematics: ClassVar[str] = "the quarter turn is linear: x @ T, T its value on the identity; unturned lanes: 1, 0"

    def match(self, model: nn.Module) -> list[Target]:
        """The attention modules that turn. Raises PatchDoesNotApply if none does by the stock function of halves."""
        targets = [Target(p, m) for p, m in model.named_modules() if turns_halves(m)]
        if not targets:
            raise PatchDoesNotApply("P14: no attention module turns queries and keys by halves")
        _head_size(targets)
        rotary_of(model, self.pattern)
        return targets

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Rebinds the stock forward of each attention instance to the product, and the rotary module to the host."""
        undo, targets = Reversal(), self.match(model)
        size, half = _head_size(targets), global_of(targets[0].module, APPLY).__globals__[HALF]
        for target in targets:
            rebind(undo, target.module, {APPLY: turned})
            if calls_by_name(target.module, SLICE_SIZE):
                undo.set_attribute(target.module, SLICE_SIZE, size)
        for target in rotary_of(model, self.pattern):
            undo.add(context.stay_on_host(target.module))
            undo.set_attribute(target.module, "forward", HostTables(target.module.forward, half, size))
        undo.add(host_positions(model, context))
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The attention and rotary classes, the function that turns, and the quarter turn."""
        targets = self.match(model)
        functions = {global_of(t.module, APPLY) for t in targets}
        halves = {f.__globals__[HALF] for f in functions}
        return [*types_of(targets), *types_of(rotary_of(model, self.pattern)), *functions, *halves]


def turns_halves(module: nn.Module) -> bool:
    """True if the module's stock forward calls the function that turns (q, k, cos, sin) by halves."""
    return calls_by_name(module, APPLY) and HALF in global_of(module, APPLY).__globals__


def _head_size(targets: list[Target]) -> int:
    sizes = {head_size_of(t.module) for t in targets}
    size = sizes.pop()
    if sizes or size is None:
        raise PatchDoesNotApply("P14: the attention modules have heads of several or unknown sizes")
    return size


def rotary_of(model: nn.Module, pattern: str) -> list[Target]:
    """The modules that make cos and sin from positions. Raises PatchDoesNotApply if there are none."""
    found = [Target(p, m) for p, m in model.named_modules() if "rotary" in p.rpartition(".")[2].lower()]
    if not found:
        raise PatchDoesNotApply(f"{pattern}: no module of the model makes cos and sin from positions")
    return found


def host_positions(model: nn.Module, context: PatchContext) -> Undo:
    """Makes the positions 0 to L-1 on the host, where the tables read them; those that the caller gives stay there too.

    Nothing to do where the model takes none, or reads them in a table of learned positions as well (P32).
    """
    undo = Reversal()
    takes = "position_ids" in inspect.signature(type(model).forward).parameters
    if takes and position_table(model) is None:
        undo.add(context.add_stage(PHASE_POSITIONS, count_from_zero))
        undo.add(context.keep_on_host("position_ids"))
    return undo


def count_from_zero(inputs: dict[str, Any], call: HostCall) -> dict[str, Any]:
    """The inputs with `position_ids` [1, length], int64, unless they hold some."""
    if inputs.get("position_ids") is not None:
        return inputs
    tokens = inputs["input_ids"] if inputs.get("input_ids") is not None else inputs["inputs_embeds"]
    return {**inputs, "position_ids": torch.arange(tokens.shape[1])[None]}


def turned_lanes(model: nn.Module, pattern: str) -> int:
    """How many lanes of a head are turned. Raises PatchDoesNotApply where the frequencies cannot be counted."""
    buffers = [b for t in rotary_of(model, pattern) for n, b in t.module.named_buffers() if n.endswith("inv_freq")]
    if len({b.shape for b in buffers}) != 1:
        raise PatchDoesNotApply(f"{pattern}: the frequencies of the rotary module cannot be counted")
    return 2 * buffers[0].shape[-1]


@dataclass(frozen=True)
class HostTables:
    """Stands in for a rotary module's forward: stock cos and sin, made on the host, with the matrix of the turn.

    `stock` returns cos and sin [batch, length, turned lanes]; `size` is the number of lanes of a head.
    """

    stock: Callable[..., tuple[torch.Tensor, torch.Tensor]]
    half: Callable[[torch.Tensor], torch.Tensor]
    size: int

    def __call__(self, x: torch.Tensor, position_ids: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[Any, Turn]:
        """cos [batch, length, size], and sin with the turn, of x's dtype and on its device."""
        stand_in = torch.empty(1, dtype=torch.float32, device="cpu")
        cos, sin = self.stock(stand_in, position_ids.cpu(), *args, **kwargs)
        rest = (0, self.size - cos.shape[-1])
        turn = F.pad(self.half(torch.eye(cos.shape[-1], device="cpu")), (*rest, *rest))
        cos, sin, turn = (t.to(x.dtype).to(x.device) for t in (F.pad(cos, rest, value=1.0), F.pad(sin, rest), turn))
        return cos, (sin, turn)


def turned(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: Turn, unsqueeze_dim: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries and keys [batch, heads, length, size] turned by position; in place of the stock function of that name."""
    sine, turn = sin
    cos, sine = cos.unsqueeze(unsqueeze_dim), sine.unsqueeze(unsqueeze_dim)
    q, k = q.contiguous(), k.contiguous()
    return q * cos + (q @ turn) * sine, k * cos + (k @ turn) * sine
