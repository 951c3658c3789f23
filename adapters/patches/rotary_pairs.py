"""P18: rotation of neighbouring lanes (2j, 2j + 1) as a matrix product."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from ..errors import PatchDoesNotApply
from ..rebinding import calls_by_name, global_of, rebind
from ..reversal import Reversal
from ..structure import head_size_of
from .base import Patch, PatchContext, Target, Undo, types_of
from .rotary import APPLY, Turn

PAIRS = "rotate_every_two"
TURN = "turn_of_pairs"
METHOD, TABLE = "apply_rotary_position_embeddings", "embed_positions"


@dataclass(frozen=True)
class RotatePairsByMatrix(Patch):
    """Turns queries and keys by x*cos + (x @ T)*sin where stock turns neighbouring lanes. sin and cos on the host.

    Each angle stands twice, beside itself; lanes that stock leaves alone have cos 1 and sin 0.
    """

    pattern: ClassVar[str] = "P18"
    mathematics: ClassVar[str] = "the turn of pairs (2j, 2j+1) is linear: x @ T, T its value on the identity"

    def match(self, model: nn.Module) -> list[Target]:
        """The attention modules. Raises PatchDoesNotApply if none turns neighbouring lanes."""
        targets = [Target(p, m) for p, m in model.named_modules() if turns_pairs(m) or has_turn_method(m)]
        if not targets:
            raise PatchDoesNotApply("P18: no attention module turns neighbouring lanes")
        return targets

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Gives each attention instance the product, and the module that makes the angles a forward on the host."""
        undo, targets = Reversal(), self.match(model)
        size, by_function = head_size_of(targets[0].module) or 0, turns_pairs(targets[0].module)
        for target in targets:
            if by_function:
                rebind(undo, target.module, {APPLY: turned_pairs})
                undo.set_attribute(target.module, "rotary_dim", None)
            else:
                undo.set_buffer(target.module, TURN, pair_turn(size))
                undo.set_attribute(target.module, METHOD, types.MethodType(turned_by_method, target.module))
        for source in angles_of(model):
            undo.add(context.stay_on_host(source.module))
            forward = HostPairs(source.module.forward, size) if by_function else HostSines(source.module, context, size)
            undo.set_attribute(source.module, "forward", forward)
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The attention classes, the functions that turn, and the classes that make the angles."""
        targets = self.match(model)
        functions = {global_of(t.module, n) for t in targets if turns_pairs(t.module) for n in (APPLY,)}
        return [*types_of(targets), *types_of(angles_of(model)), *functions]


def turns_pairs(module: nn.Module) -> bool:
    """True if the stock forward calls the function that turns (tensor, sin, cos) by neighbouring lanes."""
    return calls_by_name(module, APPLY) and PAIRS in global_of(module, APPLY).__globals__


def has_turn_method(module: nn.Module) -> bool:
    """True if the module has a method of its own that turns queries and keys, and turns no values."""
    return hasattr(type(module), METHOD) and not getattr(module, "rotary_value", False)


def angles_of(model: nn.Module) -> list[Target]:
    """The modules that make sines and cosines. Raises PatchDoesNotApply if there is none."""
    names = ("rotary_emb", TABLE)
    found = [Target(p, m) for p, m in model.named_modules() if p.rpartition(".")[2] in names]
    if not found:
        raise PatchDoesNotApply("P18: no module of the model makes sines and cosines")
    return found


def pair_turn(size: int) -> torch.Tensor:
    """[size, size]: x @ T has -x[2j+1] at 2j and x[2j] at 2j + 1."""
    rows = torch.eye(size, device="cpu").unflatten(0, (-1, 2))
    return torch.stack([rows[:, 1], -rows[:, 0]], dim=1).flatten(0, 1)


def twice(table: torch.Tensor, size: int, fill: float) -> torch.Tensor:
    """[..., n] → [..., size]: each value beside itself, then `fill`."""
    doubled = torch.stack([table, table], dim=-1).flatten(-2)
    return F.pad(doubled, (0, size - doubled.shape[-1]), value=fill)


@dataclass(frozen=True)
class HostPairs:
    """Stands in for the forward of a module that returns sin and cos [batch, length, pairs]."""

    stock: Callable[..., tuple[torch.Tensor, torch.Tensor]]
    size: int

    def __call__(self, x: torch.Tensor, position_ids: torch.Tensor) -> tuple[Turn, torch.Tensor]:
        """sin [batch, length, size] with the turn, and cos, of x's dtype on its device."""
        sin, cos = self.stock(torch.empty(1, dtype=torch.float32, device="cpu"), position_ids.cpu())
        sin, cos = twice(sin, self.size, 0.0), twice(cos, self.size, 1.0)
        sin, cos, turn = (t.to(x.dtype).contiguous().to(x.device) for t in (sin, cos, pair_turn(self.size)))
        return (sin, turn), cos


@dataclass(frozen=True)
class HostSines:
    """Stands in for the forward of a table of [sin; cos] of positions 0 to L-1."""

    table: Any
    context: PatchContext
    size: int

    def __call__(self, shape: torch.Size, start: int = 0, position_ids: torch.Tensor | None = None) -> torch.Tensor:
        """[2, length, size]: sin, then cos, on the device."""
        places = torch.arange(start, start + shape[1], device="cpu") if position_ids is None else position_ids.cpu()
        sin, cos = type(self.table).forward(self.table, shape, start, places).chunk(2, dim=-1)
        both = torch.stack([twice(sin, self.size, 0.0), twice(cos, self.size, 1.0)])
        return both.to(self.context.dtype).to(self.context.device)


def turned_by_method(self: Any, angles: torch.Tensor, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Each of queries and keys [batch, heads, length, size] turned; angles [1, 1, 2, length, size]: sin and cos."""
    sin, cos = angles.unbind(2)
    copies = [x.contiguous() for x in given]
    return tuple(x * cos + (x @ self.turn_of_pairs) * sin for x in copies)


def turned_pairs(tensor: torch.Tensor, sin: Turn, cos: torch.Tensor) -> torch.Tensor:
    """[batch, length, heads, size] turned by position; in place of the stock function of that name."""
    sine, turn = sin
    return tensor * cos[:, :, None, :] + (tensor @ turn) * sine[:, :, None, :]
