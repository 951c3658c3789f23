"""P98: the patches of an image padded to whole sticks in front of the blocks, masked there and cropped behind them."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from ..errors import PatchDoesNotApply, PatchParameters
from ..reversal import Reversal
from ..structure import embeddings_of, encoder_of, find_blocks, path_of
from .base import PHASE_LENGTH, HostCall, Patch, PatchContext, Target, Undo, types_of


@dataclass(frozen=True)
class PadPatches(Patch):
    """Vectors of patches [batch, n, width] get zero rows up to a multiple, which no row attends to.

    The convolution that makes them, of step and kernel alike (a product over flattened patches, P51), stays on the host
    with the embeddings. What stands behind the blocks reads the n rows of the image.
    """

    pattern: ClassVar[str] = "P98"
    mathematics: ClassVar[str] = "masked rows have weight 0 and are cropped from the result"
    needs: ClassVar[tuple[str, ...]] = ("P30",)
    conflicts: ClassVar[tuple[str, ...]] = ("P40", "P45", "P63")

    multiple: int = 64

    def match(self, model: nn.Module) -> list[Target]:
        """The embeddings and the encoder. Raises PatchDoesNotApply unless the model reads images by patches."""
        if self.multiple < 1:
            raise PatchParameters(f"P98: multiple {self.multiple!r} is not at least 1")
        if "pixel_values" not in inspect.signature(type(model).forward).parameters:
            raise PatchDoesNotApply("P98: the model reads no images")
        embeddings, encoder = embeddings_of(model), encoder_of(model, find_blocks(model))
        patches = [m for m in embeddings.modules() if isinstance(m, nn.Conv2d) and m.stride == m.kernel_size]
        if not patches or encoder is None:
            raise PatchDoesNotApply("P98: no convolution over patches in front of an encoder")
        if "attention_mask" not in inspect.signature(type(encoder).forward).parameters:
            raise PatchDoesNotApply("P98: the encoder takes no mask")
        return [Target(path_of(model, m), m) for m in (embeddings, encoder)]

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Hooks on the embeddings and the encoder of this instance."""
        undo, padder = Reversal(), _Patches(self.multiple, context)
        embeddings, encoder = (target.module for target in self.match(model))
        undo.add(context.add_stage(PHASE_LENGTH, padder.begins))
        undo.hook(embeddings.register_forward_hook(padder.widened))
        undo.hook(encoder.register_forward_pre_hook(padder.masked, with_kwargs=True))
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The classes of the embeddings, the encoder and the model between them."""
        return [*types_of(self.match(model)), type(model)]


class _Patches:
    """What one call adds, from the embeddings to the encoder."""

    def __init__(self, multiple: int, context: PatchContext) -> None:
        self._multiple, self._context, self._call = multiple, context, HostCall()

    def begins(self, inputs: dict[str, Any], call: HostCall) -> dict[str, Any]:
        self._call = call
        return inputs

    def widened(self, module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        self._call.length = output.shape[1]
        self._call.added = -output.shape[1] % self._multiple
        return F.pad(output, (0, 0, 0, self._call.added))

    def masked(self, module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The additive mask [batch, 1, rows, rows] that forbids what was added."""
        hidden = args[0] if args else kwargs["inputs_embeds"]
        batch, rows = hidden.shape[:2]
        mask = torch.zeros((batch, 1, rows, rows), dtype=self._context.dtype, device="cpu")
        mask[..., self._call.length :] = torch.finfo(self._context.dtype).min / 2
        return args, {**kwargs, "attention_mask": mask.to(self._context.device)}
