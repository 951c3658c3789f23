"""A block with every result rounded to DL16: mathematics that is the same, and nothing of it left in 16 bits.

`(x + 4096) - 4096` is x in fp64 and noise on the device. So both blocks of a pair are run as an ideal DL16 device runs
them, each against its own fp64 result; the patched one may lose a stated number of times what the stock one loses.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from adapters.replay.interpreter import Interpreter
from pipeline.verification.equivalence.recorder import Call
from pipeline.verification.equivalence.rows import RowFault
from pipeline.verification.ideal import IdealDL16, round_dl16
from pipeline.verification.replay import Precision

STEP = 2.0**-10
"""Half a DL16 step, relative: nobody is asked to lose less than the rounding of one result."""


class Loss(NamedTuple):
    """What a block loses in DL16: per row [batch, length] relative to the row's size, and its result."""

    rows: Tensor
    output: Tensor


def run_in_dl16(call: Call, stream: Tensor) -> Tensor:
    """The first output of a noted call on another stream, every operator's result rounded to DL16; fp64.

    Attention that the document holds as one operator is rounded step by step, as devices compute it. Beyond the range
    results saturate, which is the error of a device that gives no number there.
    """
    given = list(call.given)
    given[call.stream] = stream
    values = [_on_device(x) for x in (*given, *call.parameters)]
    run = Interpreter(values, Precision.FP32, torch.device("cpu"))
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), IdealDL16():
        (output,) = run.run(call.graph["nodes"], [call.graph["outputs"][0]["ref"]])
    found: Tensor = output.double()
    return found


def _on_device(value: Any) -> Any:
    return round_dl16(value.float()) if isinstance(value, Tensor) and value.is_floating_point() else value


def loss(exact: Tensor, output: Tensor) -> Loss:
    """What `output` [batch, length, width] is off `exact`, by the norms of rows; infinite where it is no number."""
    size = exact.norm(dim=-1).clamp(min=torch.finfo(torch.float64).tiny)
    return Loss(((output - exact).norm(dim=-1) / size).nan_to_num(nan=torch.inf), output)


def times_as_much(stock: Loss, patched: Loss, real: Tensor) -> float:
    """By how many times the patched block loses more, over the real rows together; at least one rounding is free."""
    usual = max(_together(stock.rows[real]), STEP)
    return _together(patched.rows[real]) / usual


def worst_row(patched: Loss, stock: Loss, real: Tensor) -> RowFault:
    """The real row of which the patched block loses most, at its largest channel."""
    batch, token = divmod(int(torch.where(real, patched.rows, -1.0).argmax()), real.shape[1])
    channel = int(stock.output[batch, token].abs().argmax())
    values = (float(x.output[batch, token, channel]) for x in (stock, patched))
    return RowFault(batch, token, float(patched.rows[batch, token]), *values)


def _together(rows: Tensor) -> float:
    return float(rows.pow(2).mean().sqrt())
