"""P47 and P48 where a block makes the relative bias itself (T5 and its kin)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import nn

from ..errors import PatchDoesNotApply, PatchParameters
from ..reversal import Reversal
from ..structure import find_blocks
from .base import Patch, PatchContext, Target, Undo, types_of

TABLE, METHOD, ARGUMENT = "relative_attention_bias", "compute_bias", "position_bias"


@dataclass(frozen=True)
class HostBlockBias(Patch):
    """Makes the bias [1, heads, L, L] by the stock method on the host and hands it to each block that makes its own.

    A block that is given a bias uses it, and hands it on to those that share it.
    """

    pattern: ClassVar[str] = "P48"
    mathematics: ClassVar[str] = "the same table rows, looked up on the host before the block runs"

    placement: str = "host"

    def match(self, model: nn.Module) -> list[Target]:
        """The blocks with a table of their own. Raises PatchDoesNotApply if there is none."""
        if self.placement != "host":
            raise PatchParameters(f"P48: placement {self.placement!r} is not 'host'")
        targets = [Target(b.path, b.module) for b in find_blocks(model) if _maker(b.module) is not None]
        if not targets:
            raise PatchDoesNotApply("P48: no block makes a relative bias from a table of its own")
        return targets

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Hooks each block: its bias is made before it is called."""
        undo = Reversal()
        for target in self.match(model):
            maker = _maker(target.module)
            assert maker is not None
            undo.add(context.stay_on_host(maker._modules[TABLE]))  # type: ignore[arg-type]
            before = partial(with_bias, maker)
            undo.hook(target.module.register_forward_pre_hook(before, with_kwargs=True))
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The blocks' and the attention's classes."""
        makers = [_maker(t.module) for t in self.match(model)]
        return [*types_of(self.match(model)), *{type(m) for m in makers}]


def _maker(block: nn.Module) -> nn.Module | None:
    return next((m for m in block.modules() if isinstance(m._modules.get(TABLE), nn.Embedding)), None)


def with_bias(maker: Any, block: nn.Module, args: Any, kwargs: Any) -> Any:
    """The block's arguments with its bias, made on the host, on the device of its hidden states."""
    hidden = args[0] if args else kwargs["hidden_states"]
    length = hidden.shape[1]
    bias = getattr(type(maker), METHOD)(maker, length, length, device=torch.device("cpu"))
    bias = bias.to(hidden.dtype).contiguous().to(hidden.device)
    place = ARGUMENTS.index(ARGUMENT)
    if len(args) > place:
        return (*args[:place], bias, *args[place + 1 :]), kwargs
    return args, {**kwargs, ARGUMENT: bias}


ARGUMENTS = ("hidden_states", "attention_mask", "position_bias")
"""How the stock forward of a block orders its arguments."""
