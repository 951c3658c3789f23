"""Causes of several reports are merged without hiding one behind another."""

from __future__ import annotations

from typing import Any

from pipeline.diagnosis.patterns import Facts
from pipeline.diagnosis.service import diagnose_reports, failures_of, fallbacks_of, predictions_of
from sim_backend.report import CapabilityReport, OpFailure

SDPA = {"kind": "unsupported_dtype", "op": "aten.sdpa.default", "source": "sdpa_attention.py:182",
        "module": "layer.*.attention", "place": "block"}  # fmt: skip
FP32 = OpFailure(**SDPA, message="batchmatmul on DataFormats.IEEE_FP32")  # type: ignore[arg-type]
MASK = OpFailure(**SDPA, message="where3 on a bool attention mask")  # type: ignore[arg-type]


def report(dtype: str, failures: tuple[OpFailure, ...] = (), **more: tuple[OpFailure, ...]) -> dict[str, Any]:
    groups = {"predicted": (), "fallbacks": (), **more}
    made = CapabilityReport("p", "d", dtype, failures, operations=1, kernels=1, fingerprint="f", **groups)
    return made.to_dict()


def test_a_refusal_of_the_fp16_run_is_not_hidden_by_another_on_the_same_operation() -> None:
    found = failures_of([report("float32", (FP32,)), report("float16", (MASK,))])
    assert [(f.message, f.dtype_run) for f in found] == [(FP32.message, "float32"), (MASK.message, "float16")]


def test_the_same_cause_in_both_runs_counts_once() -> None:
    assert len(failures_of([report("float32", (MASK,)), report("float16", (MASK,))])) == 1


def test_equal_fallbacks_are_one_cause_of_their_kind() -> None:
    move = OpFailure("cpu_fallback", "aten.arange.default", "x.py:1", "m", "falls back", "outside")
    assert [str(f.kind) for f in fallbacks_of(report("float16", fallbacks=(move, move)))] == ["cpu_fallback"]


def test_a_prediction_is_listed_once_per_place() -> None:
    known = OpFailure("wrong_values", "op", "x.py:1", "m", "text", "block", predicted="E-17")
    assert len(predictions_of([report("float32", predicted=(known,)), report("float16", predicted=(known,))])) == 1


def test_a_cause_of_a_rare_input_only_is_added_and_says_for_which() -> None:
    window = OpFailure(
        "unsupported_op", "aten.roll.default", "x.py:9", "layers.*", "roll", "block", layers=12, count=12
    )
    rare = {**report("float16", (MASK, window)), "only_for": "a text of 1024 tokens"}
    found = diagnose_reports([report("float16", (MASK,)), rare], Facts())
    assert [(d.failure.op, d.evidence.get("only_for")) for d in found] == [
        ("aten.sdpa.default", None),
        ("aten.roll.default", "a text of 1024 tokens"),
    ]
    assert (found[1].failure.layers, found[1].failure.count) == (12, 12)


def test_a_fallback_says_what_it_costs() -> None:
    move = OpFailure("cpu_fallback", "aten.cumsum.default", "x.py:1", "m", "falls back", "outside", count=3,
                     shapes=((2, 40),), dtypes=("int64",))  # fmt: skip
    found = diagnose_reports([report("float16", fallbacks=(move,))], Facts())
    assert found[0].evidence == {"calls": 3, "operand_bytes": 3 * 2 * 40 * 8}
