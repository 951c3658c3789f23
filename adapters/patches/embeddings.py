"""P30 to P32: embeddings and their ids made on the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from ..errors import PatchDoesNotApply, PatchParameters
from ..structure import counts_positions_by_id, embeddings_of, path_of, position_table
from .base import PHASE_POSITIONS, HostCall, Patch, PatchContext, Target, Undo, types_of


@dataclass(frozen=True)
class HostEmbeddings(Patch):
    """Keeps the embeddings on the host in fp32; their result is cast and moved."""

    pattern: ClassVar[str] = "P30"
    mathematics: ClassVar[str] = "a table looked up on the host holds the same rows"

    placement: str = "host"

    def match(self, model: nn.Module) -> list[Target]:
        """The model's embeddings. Raises PatchParameters for a placement other than `host`."""
        _only_host(self.pattern, self.placement)
        module = embeddings_of(model)
        return [Target(path_of(model, module), module)]

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Declares the embeddings a host module: `adapt` leaves them there."""
        module = self.match(model)[0].module
        context.host_modules.append(module)
        return lambda: context.host_modules.remove(module)

    def replaced(self, model: nn.Module) -> list[Any]:
        """The embeddings' class."""
        return types_of(self.match(model))


@dataclass(frozen=True)
class HostPositions(Patch):
    """Computes the position ids on the host by the model's own rule and passes them in."""

    pattern: ClassVar[str] = "P32"
    mathematics: ClassVar[str] = "the same integers, made on the host"

    placement: str = "host"

    def match(self, model: nn.Module) -> list[Target]:
        """The embeddings with their position table. Raises PatchDoesNotApply if there is none."""
        _only_host(self.pattern, self.placement)
        if position_table(model) is None:
            raise PatchDoesNotApply("P32: the model has no table of learned positions")
        return [Target("", embeddings_of(model))]

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Adds the host stage. Positions the caller gives are kept."""
        self.match(model)
        padding = getattr(position_table(model), "padding_idx", None) if counts_positions_by_id(model) else None

        def stage(inputs: dict[str, Any], call: HostCall) -> dict[str, Any]:
            if inputs.get("position_ids") is not None or inputs.get("input_ids") is None:
                return inputs
            return {**inputs, "position_ids": position_ids(inputs["input_ids"], padding)}

        return context.add_stage(PHASE_POSITIONS, stage)

    def replaced(self, model: nn.Module) -> list[Any]:
        """The embeddings' class, whose rule is repeated here."""
        return types_of(self.match(model))


def position_ids(ids: torch.Tensor, padding: int | None) -> torch.Tensor:
    """[batch, length] int64: 0 to L-1, or, given a padding id p, cumsum(m)*m + p with m = (id != p)."""
    if padding is None:
        return torch.arange(ids.shape[1])[None].expand(ids.shape[0], -1)
    real = (ids != padding).long()
    return real.cumsum(dim=1) * real + padding


def _only_host(pattern: str, placement: str) -> None:
    if placement != "host":
        raise PatchParameters(f"{pattern}: placement {placement!r} is not 'host'")
