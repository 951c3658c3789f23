"""Wrong outputs that the gate must refuse, measured end to end on a calibrated model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from pipeline.verification import controls
from pipeline.verification.compare import StockRuns, measure_case, ranking
from pipeline.verification.gate import judge
from pipeline.verification.ideal import ideal_run, round_dl16
from pipeline.verification.measurements import ExecutionProof, Measurements, Place, Weights
from pipeline.verification.parts import eager_attention
from pipeline.verification.probes import ProbeBatch, alone_batches
from pipeline.verification.verdict import Outcome, Tier, Verdict

PROOF = ExecutionProof({}, blocks_on_device=3)
Wrong = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def verdict_on(output: torch.Tensor, probe: ProbeBatch, stock: StockRuns) -> Verdict:
    case = measure_case(probe, output, stock, "mean", Place.DEVICE)
    return judge(Measurements(Weights.SYNTHETIC, (case,), PROOF), Tier.SWEEP)


def test_the_ideal_device_passes(bert_probe: ProbeBatch, bert_stock: StockRuns) -> None:
    verdict = verdict_on(bert_stock.ideal, bert_probe, bert_stock)
    assert verdict.outcome is Outcome.PASSED, verdict.sentence


def one_bad_token(reference: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    out = reference.clone()
    out[0, 0] = out[0, 0].roll(1)
    return out


def one_nan(reference: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    out = reference.clone()
    out[-1, 0, 0] = torch.nan
    return out


WRONG: dict[str, Wrong] = {
    "zeros": lambda reference, mask: torch.zeros_like(reference),
    "scaled": lambda reference, mask: 1.05 * reference,
    "swapped rows": lambda reference, mask: reference.roll(1, 0),
    "constant": lambda reference, mask: reference[mask.bool()].mean(0).expand_as(reference),
    "noise of four times an ideal device": lambda reference, mask: reference
    + 0.02 * reference.norm(dim=-1, keepdim=True) * torch.randn(reference.shape, generator=torch.Generator().manual_seed(0)) / reference.shape[-1] ** 0.5,  # noqa: E501
    "shifted by one token": lambda reference, mask: reference.roll(1, 1),
    "one bad token": one_bad_token,
    "one NaN": one_nan,
    "channels reversed": lambda reference, mask: reference.flip(-1),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_wrong_outputs_are_refused(bert_probe: ProbeBatch, bert_stock: StockRuns, wrong: Wrong) -> None:
    verdict = verdict_on(wrong(bert_stock.reference, bert_probe.mask), bert_probe, bert_stock)
    assert verdict.outcome is Outcome.FAILED, verdict.sentence


@pytest.mark.parametrize("name", ["uniform_attention", "mask_dropped", "scale_dropped", "positions_dropped", "layer_skipped"])  # fmt: skip # noqa: E501
def test_structural_mistakes_on_an_otherwise_ideal_device_are_refused(
    tiny_bert: Any, bert_probe: ProbeBatch, bert_stock: StockRuns, name: str
) -> None:
    subject = controls.Subject(tiny_bert, bert_probe.inputs, bert_stock.reference, bert_probe.mask)
    with eager_attention(tiny_bert):
        broken = round_dl16(controls.SEMANTIC[name](subject))
    assert verdict_on(broken, bert_probe, bert_stock).outcome is Outcome.FAILED


def test_a_text_that_changes_in_company_is_refused(
    tiny_bert: Any, bert_probe: ProbeBatch, bert_stock: StockRuns
) -> None:
    alone = [ideal_run(tiny_bert, single.inputs) for single in alone_batches(bert_probe)]
    good = measure_case(bert_probe, bert_stock.ideal, bert_stock, "mean", Place.DEVICE, alone)
    assert judge(Measurements(Weights.SYNTHETIC, (good,), PROOF), Tier.SWEEP).outcome is Outcome.PASSED
    bad = measure_case(bert_probe, bert_stock.ideal, bert_stock, "mean", Place.DEVICE, [-a for a in alone])
    assert judge(Measurements(Weights.SYNTHETIC, (bad,), PROOF), Tier.SWEEP).outcome is Outcome.FAILED


@pytest.mark.parametrize(("pooling", "column", "seen"), [("mean", 1, True), ("cls", 1, False), ("cls", 0, True)])
def test_token_cosines_are_over_the_tokens_that_the_pooling_uses(
    bert_probe: ProbeBatch, bert_stock: StockRuns, pooling: str, column: int, seen: bool
) -> None:
    row = max(range(len(bert_probe.lengths)), key=bert_probe.lengths.__getitem__)
    out = bert_stock.ideal.clone()
    out[row, column] *= -1
    case = measure_case(bert_probe, out, bert_stock, pooling, Place.DEVICE)
    assert (case.lowest_token_cosine < 0) is seen


NOT_COMPARABLE: dict[str, Wrong] = {
    "a token too few": lambda reference, mask: reference[:, :-1],
    "a text too few": lambda reference, mask: reference[:-1],
    "no text": lambda reference, mask: reference[:0],
    "no channel": lambda reference, mask: reference[..., :0],
}


@pytest.mark.parametrize("wrong", NOT_COMPARABLE.values(), ids=NOT_COMPARABLE.keys())
def test_an_output_that_is_empty_or_of_another_shape_fails_its_case(
    bert_probe: ProbeBatch, bert_stock: StockRuns, wrong: Wrong
) -> None:
    verdict = verdict_on(wrong(bert_stock.reference, bert_probe.mask), bert_probe, bert_stock)
    assert verdict.outcome is Outcome.FAILED
    assert "the output is" in verdict.reasons[0].text


def test_ranking_sees_swapped_texts(bert_probe: ProbeBatch, bert_stock: StockRuns) -> None:
    reference, mask = bert_stock.reference, bert_probe.mask
    ideal = ranking([(bert_stock.ideal, reference, mask)], "mean")
    swapped = ranking([(reference.roll(1, 0), reference, mask.roll(1, 0) | mask)], "mean")
    assert ideal is not None
    assert ideal.spearman > 0.9
    assert swapped is not None
    assert swapped.pairs == 10
    assert swapped.spearman < 0.9


def test_nothing_is_ranked_without_texts_or_shapes(bert_probe: ProbeBatch, bert_stock: StockRuns) -> None:
    assert ranking([], "mean") is None
    assert ranking([(bert_stock.reference[:, :-1], bert_stock.reference, bert_probe.mask)], "mean") is None
