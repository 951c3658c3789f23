"""Documents of several cases as one model: any batch, and any length up to that of the longest document.

Rows are independent of one another and what is masked counts for nothing, so a batch is cut into documents' batches,
the last filled up with its own first row, and its length is padded on the right to that of the next document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import ShapeRefused
from .model import Blocks, Constants, ModelReplay
from .precision import Precision

BATCHES, BUCKET = (8, 1), 64
"""Batches that a set has documents for, and what its lengths are multiples of."""


def cases_for(longest: int, limit: int | None = None) -> list[tuple[int, int]]:
    """(batch, length) of a set's documents: lengths double from one bucket until the longest text fits.

    `limit` is the model's own: no document is longer.
    """
    lengths = [BUCKET]
    while lengths[-1] < longest:
        lengths.append(lengths[-1] * 2)
    kept = dict.fromkeys(min(length, limit or length) for length in lengths)
    return [(batch, length) for length in kept for batch in BATCHES]


class DocumentSet:
    """Validated documents with the stock model's tensors; `block_calls` counts calls whose result lay on the device.

    `pad_id` is the token id of padding. Raises ValueError without a document.
    """

    def __init__(
        self,
        documents: Sequence[Mapping[str, Any]],
        tensors: Mapping[str, Tensor],
        precision: Precision = Precision.AS_IS,
        pad_id: int = 0,
    ) -> None:
        if not documents:
            raise ValueError("a set has at least one document")
        self._documents = {(d["case"]["length"], d["case"]["batch"]): d for d in documents}
        self._tensors, self._precision, self._pad_id = tensors, precision, pad_id
        self._blocks, self._constants = Blocks(), Constants()
        self._replays: dict[tuple[int, int], ModelReplay] = {}
        self.block_calls = 0

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs, int64 [batch, length] each."""
        return tuple(entry["name"] for entry in next(iter(self._documents.values()))["inputs"])

    def run(self, inputs: Mapping[str, Tensor], device: str = "cpu", compiled: bool = False) -> Tensor:
        """[batch, length, width] on the host. Raises ShapeRefused for a text longer than the longest document."""
        rows, length = inputs["input_ids"].shape
        wide = self._length_for(length)
        padded = {name: self._padded(name, inputs[name], wide - length) for name in self.inputs}
        found: list[Tensor] = []
        for first, batch in self._cuts(rows, wide):
            part = {name: _filled(t[first : first + batch], batch) for name, t in padded.items()}
            found.append(self._replayed((wide, batch), part, device, compiled)[: rows - first])
        return torch.cat(found)[:, :length].contiguous()

    def _length_for(self, length: int) -> int:
        lengths = sorted({known for known, _ in self._documents})
        wide = next((known for known in lengths if known >= length), None)
        if wide is None:
            raise ShapeRefused(f"{length} tokens, the adapter's documents are for {lengths[-1]} at most")
        return wide

    def _cuts(self, rows: int, wide: int) -> Iterator[tuple[int, int]]:
        """Where each part begins and of which batch it is: the smallest that holds what is left, else the largest."""
        batches = sorted(batch for length, batch in self._documents if length == wide)
        first = 0
        while first < rows:
            batch = next((b for b in batches if b >= rows - first), batches[-1])
            yield first, batch
            first += batch

    def _padded(self, name: str, tensor: Tensor, added: int) -> Tensor:
        return F.pad(tensor, (0, added), value=self._pad_id if name == "input_ids" else 0)

    def _replayed(self, key: tuple[int, int], part: Mapping[str, Tensor], device: str, compiled: bool) -> Tensor:
        if key not in self._replays:
            document = self._documents[key]
            self._replays[key] = ModelReplay(
                document, self._tensors, self._precision, blocks=self._blocks, constants=self._constants
            )
        replay = self._replays[key]
        before = replay.block_calls
        output = replay.run(part, device, compiled)
        self.block_calls += replay.block_calls - before
        return output


def _filled(part: Tensor, batch: int) -> Tensor:
    missing = batch - len(part)
    return torch.cat([part, part[:1].expand(missing, -1)]) if missing else part
