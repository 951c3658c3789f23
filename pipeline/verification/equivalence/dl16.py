"""Documents evaluated as the device would: every result rounded to DL16, what leaves the range becomes no number.

Written apart from the simulator's numerics, as the ideal DL16 run is, so that the two can disagree; a test holds them
together. Beyond half a step above 8.57e9 a result is the one code of NaN and infinity, which reads as NaN (facts 1.6).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from adapters.document_ops import OPERATORS
from pipeline.verification.ideal import DL16_MAX, round_dl16

_OVERFLOW = DL16_MAX + 2.0**22  # half of the last step, 2^32 / 512 / 2


def rounded(x: Tensor) -> Tensor:
    """fp64 or fp32 rounded to DL16, as fp32; NaN beyond the range."""
    small = x.float()
    return torch.where(small.abs() < _OVERFLOW, round_dl16(small), torch.nan)


def run_dl16(document: dict[str, Any], x: Tensor) -> Tensor:
    """The document on DL16 values `x`, each operator computed in fp64 and rounded once; fp64, of the shape of `x`."""
    values = [x]
    for node in document["nodes"]:
        args = [values[a["ref"]] if isinstance(a, dict) else a for a in node["args"]]
        kwargs = {k: values[v["ref"]] if isinstance(v, dict) else v for k, v in node.get("kwargs", {}).items()}
        result = OPERATORS[node["op"]](*args, **kwargs)
        values.append(result if result.dtype is torch.bool else rounded(result).double())
    return values[document["output"]["ref"]]
