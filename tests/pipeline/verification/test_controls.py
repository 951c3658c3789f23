"""Controls: caught on calibrated and on real weights, missed on stock initialisation, and harmless to the model."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pipeline.verification import controls
from pipeline.verification.compare import StockRuns, measure_case, stock_runs
from pipeline.verification.controls import SEMANTIC, TRIVIAL, run_controls
from pipeline.verification.gate import judge, rules_of, void_reason
from pipeline.verification.measurements import (
    SEMANTIC_CONTROLS,
    ControlResult,
    ExecutionProof,
    Measurements,
    Place,
    Weights,
)
from pipeline.verification.parts import counts_padding, is_causal, reference_run
from pipeline.verification.probes import ProbeBatch, probe_batches
from pipeline.verification.verdict import Outcome, Tier
from pipeline.weights.synthetic.build import synthesise

from .conftest import SEED, TINY


def test_the_gate_knows_the_structural_controls_by_name() -> None:
    assert set(SEMANTIC) == SEMANTIC_CONTROLS


def by_name(controls: tuple[ControlResult, ...] | list[ControlResult]) -> dict[str, ControlResult]:
    return {c.name: c for c in controls}


def stock_of(model: Any, tokenizer: Any = None, pooling: str = "mean") -> tuple[ProbeBatch, StockRuns]:
    probe = probe_batches(model.config, tokenizer, SEED, causal=is_causal(model))[0]
    return probe, stock_runs(model, probe, pooling)


def test_every_control_is_caught_on_calibrated_bert(bert_stock: StockRuns) -> None:
    found = by_name(bert_stock.controls)
    assert set(found) == {*TRIVIAL, *SEMANTIC, "wrong_pooling"}
    assert {n for n, c in found.items() if not c.applicable} == {"glu_swapped"}
    assert {n for n, c in found.items() if c.applicable and not c.caught} == set()


def test_every_control_is_caught_on_calibrated_albert(tiny_albert: Any) -> None:
    _, stock = stock_of(tiny_albert)
    found = by_name(stock.controls)
    assert {n for n, c in found.items() if c.applicable and not c.caught} == set()
    assert found["layer_skipped"].applicable, "one shared layer called three times"


def test_every_control_is_caught_on_calibrated_llama_with_left_padding(tiny_llama: Any) -> None:
    probe, stock = stock_of(tiny_llama, pooling="last")
    found = by_name(stock.controls)
    assert probe.side == "left"
    assert all(c.applicable and c.caught for c in found.values()), found


def test_every_control_is_caught_on_the_real_minilm(minilm: Any, minilm_tokenizer: Any) -> None:
    probe, stock = stock_of(minilm, minilm_tokenizer)
    found = by_name(stock.controls)
    assert {n for n, c in found.items() if not c.applicable} == {"glu_swapped"}
    assert all(c.caught for c in found.values() if c.applicable), found
    case = measure_case(probe, stock.ideal, stock, "mean", Place.DEVICE)
    assert void_reason(case, rules_of(Measurements(Weights.REAL))) is None


def test_a_tied_token_table_is_not_taken_for_a_position_table() -> None:
    t5 = {
        "model_type": "t5",
        "vocab_size": 400,
        "d_model": 96,
        "d_kv": 24,
        "d_ff": 192,
        "num_layers": 3,
        "num_heads": 4,
    }
    _, stock = stock_of(synthesise(t5).model)
    found = by_name(stock.controls)["positions_dropped"]
    assert found.caught
    assert found.worst_token_cosine is not None
    assert found.worst_token_cosine > 0, "positions are gone, tokens are not"


DEBERTA = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "max_relative_positions": -1}
IDS = {"pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2}
OTHERS: dict[str, dict[str, Any]] = {
    "tables asked by shape": {"model_type": "roformer", "embedding_size": 96},
    "pooled vectors only": {"model_type": "dpr", "projection_dim": 0},
    "tables read directly": {"model_type": "deberta-v2", "position_biased_input": False, **DEBERTA},
    "gated, one projection": {"model_type": "modernbert", **IDS},
    "gated, two projections": {"model_type": "nomic_bert", "pad_token_id": 0},
}


@pytest.mark.parametrize("fields", OTHERS.values(), ids=OTHERS.keys())
def test_every_control_is_caught_on_other_structures(fields: dict[str, Any]) -> None:
    _, stock = stock_of(synthesise({**TINY, "max_position_embeddings": 128, **fields}).model)
    found = by_name(stock.controls)
    assert {n for n, c in found.items() if c.applicable and not c.caught} == set()
    assert {n for n, c in found.items() if not c.applicable} <= {"glu_swapped"}


def test_stock_initialisation_misses_controls_and_the_case_is_void(stock_init_bert: Any) -> None:
    probe, stock = stock_of(stock_init_bert)
    found = by_name(stock.controls)
    assert not found["uniform_attention"].caught
    assert found["uniform_attention"].worst_token_cosine == pytest.approx(1, abs=5e-3)
    case = measure_case(probe, stock.reference, stock, "mean", Place.DEVICE)
    verdict = judge(Measurements(Weights.SYNTHETIC, (case,), ExecutionProof({}, blocks_on_device=3)), Tier.SWEEP)
    assert verdict.outcome is Outcome.UNKNOWN
    assert "uniform_attention" in verdict.void_cases[0][1]


def test_controls_leave_the_model_as_it_was(tiny_bert: Any, bert_probe: ProbeBatch) -> None:
    before = {k: v.clone() for k, v in tiny_bert.state_dict().items()}
    hooks = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in tiny_bert.modules())
    implementation = tiny_bert.config._attn_implementation
    reference = reference_run(tiny_bert, bert_probe.inputs)
    run_controls(tiny_bert, bert_probe.inputs, reference, "mean")
    assert torch.equal(reference_run(tiny_bert, bert_probe.inputs), reference)
    assert all(torch.equal(v, before[k]) for k, v in tiny_bert.state_dict().items())
    assert sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in tiny_bert.modules()) == hooks
    assert tiny_bert.config._attn_implementation == implementation


def test_mask_control_does_not_apply_to_causal_models_padded_on_the_right(tiny_llama: Any) -> None:
    probe = probe_batches(tiny_llama.config, None, SEED, causal=False)[0]
    reference = reference_run(tiny_llama, probe.inputs)
    found = by_name(run_controls(tiny_llama, probe.inputs, reference, "last"))
    assert not found["mask_dropped"].applicable
    assert "no real token sees a pad" in found["mask_dropped"].detail


def test_one_text_alone_has_no_rows_to_shuffle_and_no_padding(tiny_bert: Any) -> None:
    ids = torch.arange(10, 40).unsqueeze(0)
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    found = by_name(run_controls(tiny_bert, batch, reference_run(tiny_bert, batch), "mean"))
    assert {n for n, c in found.items() if not c.applicable} == {"shuffled_rows", "mask_dropped", "glu_swapped"}


def test_a_control_that_two_texts_do_not_show_is_judged_on_all(
    tiny_bert: Any, bert_probe: ProbeBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    reference = reference_run(tiny_bert, bert_probe.inputs)

    def wrong_in_the_middle(s: controls.Subject) -> torch.Tensor:
        seen.append(len(s.reference))
        wrong = s.reference.clone()
        wrong[1:-1] = -wrong[1:-1] if len(wrong) > 2 else wrong[1:-1]
        return wrong

    def wrong(s: controls.Subject) -> torch.Tensor:
        seen.append(len(s.reference))
        return -s.reference

    for make, sizes in ((wrong_in_the_middle, [2, len(reference)]), (wrong, [2])):
        seen.clear()
        monkeypatch.setattr(controls, "SEMANTIC", {"layer_skipped": make})
        found = by_name(run_controls(tiny_bert, bert_probe.inputs, reference, "mean"))
        assert found["layer_skipped"].caught
        assert seen == sizes


def test_a_control_that_cannot_run_says_so(
    tiny_bert: Any, bert_probe: ProbeBatch, bert_stock: StockRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(subject: controls.Subject) -> torch.Tensor:
        raise RuntimeError("sizes differ")

    monkeypatch.setitem(SEMANTIC, "glu_swapped", breaks)
    found = by_name(run_controls(tiny_bert, bert_probe.inputs, bert_stock.reference, "mean"))
    assert not found["glu_swapped"].applicable
    assert found["glu_swapped"].broken
    assert found["glu_swapped"].detail == "RuntimeError: sizes differ"


@pytest.mark.parametrize(("causal", "fixture"), [(False, "tiny_bert"), (True, "tiny_llama")])
def test_causality_is_found_by_asking(request: pytest.FixtureRequest, causal: bool, fixture: str) -> None:
    assert is_causal(request.getfixturevalue(fixture)) is causal


def test_positions_that_count_padding_are_found_by_asking(tiny_llama: Any) -> None:
    gpt2 = synthesise({**TINY, "model_type": "gpt2", "n_positions": 64}).model
    assert counts_padding(gpt2)
    assert not counts_padding(tiny_llama)
