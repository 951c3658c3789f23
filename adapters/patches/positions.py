"""P99: zero rows behind a table of positions up to a multiple, for embeddings that refuse more tokens than rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from ..digests import source_of
from ..errors import PatchDoesNotApply, PatchParameters
from ..reversal import Reversal
from ..structure import counts_positions_by_id, embeddings_of, path_of, position_table
from .base import PHASE_COMPLETE, HostCall, Patch, PatchContext, Target, Undo

REFUSES = "position_embedding.weight.shape[0]"
"""How embeddings that refuse long inputs ask how many they take (CLIP and its kin)."""


@dataclass(frozen=True)
class PadPositions(Patch):
    """Positions are given for the caller's tokens, and P63 puts its padding at position 0: the new rows are never read,
    they are there to be counted.

    The longest text stays that of the stock table, which `num_embeddings` still says.
    """

    pattern: ClassVar[str] = "P99"
    mathematics: ClassVar[str] = "rows that no position reads change nothing"
    needs: ClassVar[tuple[str, ...]] = ("P63",)

    multiple: int = 64

    def match(self, model: nn.Module) -> list[Target]:
        """The table. Raises PatchDoesNotApply where no padded length is refused for the size of the table."""
        if self.multiple < 1:
            raise PatchParameters(f"P99: multiple {self.multiple!r} is not at least 1")
        table, kind = position_table(model), _kind(model)
        if table is None or counts_positions_by_id(model):
            raise PatchDoesNotApply("P99: the model has no table of positions counted from 0")
        if REFUSES not in source_of(kind):
            raise PatchDoesNotApply(f"P99: {kind.__name__} refuses no length for the size of its table")
        if self._more(table) == 0:
            raise PatchDoesNotApply(f"P99: {table.num_embeddings} positions are a multiple of {self.multiple}")
        return [Target(path_of(model, table), table)]

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Gives the table a longer weight, and positions to every call, so that all lengths run the same code."""
        undo = Reversal()
        undo.add(context.add_stage(PHASE_COMPLETE, _with_positions))
        for _, table in self.match(model):
            weight = F.pad(table._parameters["weight"].detach(), (0, 0, 0, self._more(table)))  # type: ignore[union-attr]
            undo.set_parameter(table, "weight", nn.Parameter(weight, requires_grad=False))
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The class of the embeddings, whose refusal it is about."""
        self.match(model)
        return [_kind(model)]

    def _more(self, table: Any) -> int:
        return int(-table.num_embeddings % self.multiple)


def _with_positions(inputs: dict[str, Any], call: HostCall) -> dict[str, Any]:
    tokens = inputs["input_ids"] if inputs.get("input_ids") is not None else inputs["inputs_embeds"]
    if inputs.get("position_ids") is not None:
        return inputs
    return {**inputs, "position_ids": torch.arange(tokens.shape[1])[None]}


def _kind(model: nn.Module) -> Any:
    return type(embeddings_of(model))
