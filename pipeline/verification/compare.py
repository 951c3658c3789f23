"""From outputs to the gate's input: the stock runs of one probe batch, and one case measured against them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pipeline.verification import measures
from pipeline.verification.controls import run_controls
from pipeline.verification.ideal import DL16, FP32_NEAREST, Conversion, yardstick_run
from pipeline.verification.measurements import CaseMeasurement, ControlResult, Place
from pipeline.verification.parts import reference_run
from pipeline.verification.probes import ProbeBatch, case_name


class StockRuns(NamedTuple):
    """Stock on the CPU for one batch: fp32 reference and yardstick run, (batch, length, width), and the controls.

    `yardstick` names the run in `ideal`: "dl16", or "bfloat16" where the model is not finite in fp16.
    """

    reference: Tensor
    ideal: Tensor
    controls: tuple[ControlResult, ...]
    yardstick: str = DL16


class Ranking(NamedTuple):
    """Rank correlation over pairs of texts, and how many pairs it rests on."""

    spearman: float
    pairs: int


def stock_runs(
    model: Any, probe: ProbeBatch, pooling: str, controls: bool = True, conversion: Conversion = FP32_NEAREST
) -> StockRuns:
    """Runs the stock fp32 model (CPU, eval): reference, ideal DL16 device and every control. The model is unchanged.

    `conversion` is the profile's way of bringing weights to the device: no device is better than its converter.
    """
    reference = reference_run(model, probe.inputs)
    broken = run_controls(model, probe.inputs, reference, pooling) if controls else []
    yardstick = yardstick_run(model, probe.inputs, conversion)
    return StockRuns(reference, yardstick.output, tuple(broken), yardstick.name)


def measure_case(
    probe: ProbeBatch,
    output: Tensor,
    stock: StockRuns,
    pooling: str,
    place: Place,
    alone: Sequence[Tensor] | None = None,
) -> CaseMeasurement:
    """Everything measured on one output, (batch, length, width) on the CPU, against the stock runs of its batch.

    Token cosines are over the tokens that the pooling uses; norms, error ratio and finiteness over all real ones.
    `alone` are the outputs of `alone_batches(probe)`, from the same place. The error ratio is for the device only. An
    output that is empty or of another shape is a case whose `problem` says so: it fails, it never ends the run.
    """
    problem = _shape_problem(output, stock.reference)
    if problem:
        return CaseMeasurement(**_about(probe, place, stock, pooling), **_UNMEASURED, problem=problem)
    output, mask = output.float(), probe.mask
    used = measures.pooled_tokens(mask, pooling)
    norms = measures.norm_range(output, stock.reference, mask)
    vectors = [measures.pool(x, mask, pooling) for x in (output, stock.reference)]
    return CaseMeasurement(
        **_about(probe, place, stock, pooling),
        lowest_token_cosine=measures.lowest_token_cosine(output, stock.reference, used),
        norm_low=norms.low,
        norm_high=norms.high,
        pooled_cosine=measures.lowest_cosine(*vectors),
        centred_pooled_cosine=measures.lowest_centred_cosine(*vectors),
        finite=measures.all_finite(output, mask),
        error_ratio=_error_ratio(output, stock, mask, place),
        company_token_cosine=measures.lowest_company_cosine(list(alone), output, mask) if alone else None,
    )


_UNMEASURED: dict[str, Any] = {
    **dict.fromkeys(("lowest_token_cosine", "norm_low", "norm_high", "pooled_cosine"), float("nan")),
    "centred_pooled_cosine": None,
    "finite": False,
}


def _shape_problem(output: Tensor, reference: Tensor) -> str:
    if not output.numel():
        return "the output is empty"
    if output.shape != reference.shape:
        return f"the output is {tuple(output.shape)}, the reference {tuple(reference.shape)}"
    return ""


def _about(probe: ProbeBatch, place: Place, stock: StockRuns, pooling: str) -> dict[str, Any]:
    """What is known of a case before its output is looked at."""
    used = measures.pooled_tokens(probe.mask, pooling)
    return {
        "name": case_name(probe, place),
        "draw": probe.draw,
        "side": probe.side,
        "place": place,
        "texts": len(probe.lengths),
        "tokens": int(probe.mask.sum()),
        "ideal_token_cosine": measures.lowest_token_cosine(stock.ideal, stock.reference, used),
        "controls": stock.controls,
        "yardstick": stock.yardstick,
        "scripts": probe.scripts,
        "empty_texts": probe.empty_texts,
    }


def _error_ratio(output: Tensor, stock: StockRuns, mask: Tensor, place: Place) -> float | None:
    if place is not Place.DEVICE:
        return None
    return measures.error_ratio(output, stock.ideal, stock.reference, mask)


def ranking(runs: Sequence[tuple[Tensor, Tensor, Tensor]], pooling: str) -> Ranking | None:
    """Rank correlation over all texts of (output, reference, mask) runs: would a search index notice?

    None without runs, or if an output is not the shape of its reference (then its case says so).
    """
    if not runs or any(_shape_problem(out, ref) for out, ref, _ in runs):
        return None
    outputs = torch.cat([measures.pool(out, mask, pooling) for out, _, mask in runs])
    references = torch.cat([measures.pool(ref, mask, pooling) for _, ref, mask in runs])
    texts = len(outputs)
    return Ranking(measures.spearman(outputs, references), texts * (texts - 1) // 2)
