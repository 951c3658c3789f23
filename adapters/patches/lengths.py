"""P63: lengths padded to a multiple on the host, so that few shapes are compiled; the result is cropped."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from ..errors import PatchDoesNotApply, PatchParameters
from ..structure import counts_positions_by_id, embeddings_of, position_table
from .base import PHASE_LENGTH, HostCall, Patch, PatchContext, Target, Undo

SIDES = ("right", "left")


@dataclass(frozen=True)
class PadLength(Patch):
    """Pads ids (by the pad id), mask and token types (by 0) to `multiple` tokens. Encoders right, decoders left."""

    pattern: ClassVar[str] = "P63"
    mathematics: ClassVar[str] = "masked positions have weight 0 and are cropped from the result"

    multiple: int = 64
    side: str = "right"

    def match(self, model: nn.Module) -> list[Target]:
        """The model itself. Raises PatchDoesNotApply when padding on this side would move positions it cannot mend."""
        if self.side not in SIDES or self.multiple < 1:
            raise PatchParameters(f"P63: multiple {self.multiple!r} and side {self.side!r} are not usable")
        if "position_ids" not in inspect.signature(type(model).forward).parameters and self.side == "left":
            raise PatchDoesNotApply("P63: the model takes no position_ids, so left padding would move its positions")
        return [Target("", model)]

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Adds the host stage that pads; the crop is noted in the call and done by the runner."""
        self.match(model)
        padder = _Padder(self.multiple, self.side == "left", _pad_id(model), _table_length(model))
        return context.add_stage(PHASE_LENGTH, padder)

    def replaced(self, model: nn.Module) -> list[Any]:
        """The embeddings, which decide what a padded position means."""
        return [type(embeddings_of(model))]


@dataclass(frozen=True)
class _Padder:
    """The host stage. `table` is the number of learned positions counted from 0, or None when ids count themselves."""

    multiple: int
    left: bool
    pad_id: int
    table: int | None

    def __call__(self, inputs: dict[str, Any], call: HostCall) -> dict[str, Any]:
        tokens = inputs["input_ids"] if inputs.get("input_ids") is not None else inputs["inputs_embeds"]
        batch, length = tokens.shape[:2]
        call.length, call.left = length, self.left
        call.added = -length % self.multiple
        if inputs.get("attention_mask") is None:
            inputs = {**inputs, "attention_mask": torch.ones((batch, length), dtype=torch.int64)}
        if not call.added:
            return inputs
        return self._padded(inputs, length, call.added)

    def _padded(self, inputs: dict[str, Any], length: int, added: int) -> dict[str, Any]:
        fills = {"input_ids": self.pad_id, "attention_mask": 0, "token_type_ids": 0, "position_ids": 0}
        sides = (added, 0) if self.left else (0, added)
        padded = {
            name: F.pad(value, sides, value=fills[name]) if name in fills and value is not None else value
            for name, value in inputs.items()
        }
        if padded.get("inputs_embeds") is not None:
            padded["inputs_embeds"] = F.pad(padded["inputs_embeds"], (0, 0, *sides))
        if padded.get("position_ids") is None and self._needs_positions(length + added):
            padded["position_ids"] = self._positions(length, sides)
        return padded

    def _needs_positions(self, padded: int) -> bool:
        return self.table is not None and (self.left or padded > self.table)

    def _positions(self, length: int, sides: tuple[int, int]) -> torch.Tensor:
        return F.pad(torch.arange(length), sides, value=0)[None]


def _pad_id(model: nn.Module) -> int:
    pad = getattr(model.config, "pad_token_id", None)
    return 0 if pad is None else int(pad)


def _table_length(model: nn.Module) -> int | None:
    if counts_positions_by_id(model):
        return None
    table = position_table(model)
    return table.num_embeddings if table is not None else None
