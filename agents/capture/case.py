"""What one capture is for: a batch, a length and the dtype that will run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch

DTYPES = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}
"""The dtypes a model can run in, by name."""

TOKENS = ("input_ids", "attention_mask")


@dataclass(frozen=True)
class Case:
    """One shape of the inputs, int64 [batch, length] each, and the dtype of the device parts."""

    batch: int
    length: int
    dtype: str
    inputs: tuple[str, ...] = TOKENS

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; `case_from_dict` reads it back."""
        return {**asdict(self), "inputs": list(self.inputs)}


def case_from_dict(data: dict[str, Any]) -> Case:
    """The case that `Case.to_dict` wrote. Raises KeyError for an unknown dtype."""
    assert DTYPES[data["dtype"]] is not None
    return Case(int(data["batch"]), int(data["length"]), data["dtype"], tuple(data["inputs"]))


def cases_of(shapes: list[dict[str, torch.Tensor]], dtype: str) -> list[Case]:
    """The distinct cases of batches of host inputs, in order of first appearance."""
    sizes = [(b["input_ids"].shape, tuple(b)) for b in shapes]
    return list(dict.fromkeys(Case(int(s[0]), int(s[1]), dtype, names) for s, names in sizes))
