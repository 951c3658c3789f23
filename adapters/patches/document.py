"""Drafted code as an adapter: the documents that were captured of it and verified, in place of the model's forward."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import nn

from ..errors import PatchDoesNotApply, PatchParameters
from ..replay.documents import DocumentSet
from ..replay.errors import DocumentRefused
from ..replay.precision import Precision
from ..replay.validate import Examiner
from ..structure import find_blocks
from .base import Patch, PatchContext, Target, Undo

PRECISIONS = {torch.float32: Precision.FP32, torch.float64: Precision.FP64}


@dataclass(frozen=True)
class ReplayDocuments(Patch):
    """The whole patched model as documents, one for each batch and length; nothing of the draft's code is run.

    A document holds the sizes of the model it was captured of and fits no other. It is examined by every rule before it
    runs. It stands alone: library patches of the same candidate are in it.
    """

    pattern: ClassVar[str] = "document"
    mathematics: ClassVar[str] = "the operators that were captured of drafted code and verified"
    exactness: ClassVar[str] = "bounded"
    bound: ClassVar[float | None] = 1e-2

    documents: list[dict[str, Any]] = field(default_factory=list)

    @property
    def dtype(self) -> str:
        """The dtype of the device run. Raises PatchParameters without documents, or where they differ in it."""
        try:
            found = {document["case"]["dtype"] for document in self.documents}
        except (TypeError, KeyError) as error:
            raise PatchParameters("document: every document has a case with a dtype") from error
        if len(found) != 1:
            raise PatchParameters(f"document: documents of one dtype are wanted, there are {sorted(map(str, found))}")
        return str(found.pop())

    def match(self, model: nn.Module) -> list[Target]:
        """The model itself. Raises PatchDoesNotApply where a document breaks a rule or is of another model."""
        try:
            examiner = Examiner(_tensors(model))
            for document in self.documents:
                examiner.examine(document)
        except DocumentRefused as refused:
            raise PatchDoesNotApply(f"document: {refused}") from refused
        return [Target("", model)]

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Leaves in the context what stands in for the model's forward; the model itself is not touched."""
        self.match(model)
        precision = Precision.AS_IS
        if str(context.dtype).removeprefix("torch.") != self.dtype:
            if context.dtype not in PRECISIONS:
                raise PatchParameters(f"document: captured for {self.dtype}, not for {context.dtype}")
            precision = PRECISIONS[context.dtype]
        pad = getattr(model.config, "pad_token_id", None)
        pad_id = pad if isinstance(pad, int) and pad >= 0 else 0
        context.instead = DocumentSet(self.documents, _tensors(model), precision, pad_id)

        def undo() -> None:
            context.instead = None

        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The classes of the model and of its blocks: their code was captured with the draft's."""
        return list({type(model), *(type(block.module) for block in find_blocks(model))})


def _tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers by name, as capture names them; a shared tensor has each of its names."""
    named = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    return {name: tensor.detach() for name, tensor in named}
