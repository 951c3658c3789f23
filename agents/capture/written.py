"""How arguments, results and literals stand in a document. Plain JSON: no NaN and no infinity as numbers.

{"ref": 3}  a value     {"dtype": "float16"}     {"device": "spyre"}     {"memory_format": "contiguous_format"}
{"layout": "strided"}   {"float": "-inf"}        numbers, booleans, text, null and lists as they are
meta of a result: ["float16", [2, 64, 384]], or a list of such
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .errors import CaptureRefused

LITERAL_MAX = 64
"""Elements a literal tensor may have."""


def name_of(value: Any) -> str:
    """`torch.float16` → `float16`; likewise layouts and memory formats."""
    return str(value).removeprefix("torch.")


def written(value: Any, reference: Callable[[Any], dict[str, int]], kind: type) -> Any:
    """One argument as JSON; values of type `kind` become references. Raises CaptureRefused for anything else."""
    if isinstance(value, kind):
        return reference(value)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, tuple | list):
        return [written(v, reference, kind) for v in value]
    for word, cls in (
        ("dtype", torch.dtype),
        ("memory_format", torch.memory_format),
        ("layout", torch.layout),
    ):
        if isinstance(value, cls):
            return {word: name_of(value)}
    if isinstance(value, torch.device):
        return {"device": value.type}
    raise CaptureRefused(f"an argument of type {type(value).__name__} cannot stand in a document")


def number(value: float) -> Any:
    """The number, or {"float": "inf"} and the like where JSON has none."""
    if type(value) not in (int, float):
        raise CaptureRefused(f"an argument of type {type(value).__name__} cannot stand in a document")
    return value if math.isfinite(value) else {"float": str(value)}


def meta_of(tensor: Tensor) -> list[Any]:
    """Dtype and shape of a result."""
    return [name_of(tensor.dtype), [int(n) for n in tensor.shape]]


def literal(tensor: Tensor) -> dict[str, Any]:
    """The node of a literal tensor. Raises CaptureRefused if it has more than LITERAL_MAX elements."""
    if tensor.numel() > LITERAL_MAX:
        raise CaptureRefused(
            f"a tensor of {tensor.numel()} elements was written into the code; literals have at most {LITERAL_MAX}"
        )
    data = [number(v) if not isinstance(v, bool) else v for v in tensor.detach().flatten().tolist()]
    return {"op": "literal", "args": [data], "kwargs": {}, "out": meta_of(tensor)}
