"""The gate: every threshold refuses on its wrong side, nothing passes by absence, void cases never count."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import date

import pytest

from pipeline.verification.gate import (
    THRESHOLDS,
    GateException,
    Outcome,
    Tier,
    Verdict,
    control_caught,
    exact_point,
    judge,
    void_reason,
)
from pipeline.verification.measurements import (
    CaseMeasurement,
    ControlResult,
    ElementwiseResult,
    ExecutionProof,
    Measurements,
    Place,
    Weights,
    measurements_from_dict,
)

Case = Callable[..., CaseMeasurement]
Set = Callable[..., Measurements]
NAN = float("nan")


def texts(verdict: Verdict) -> str:
    return " | ".join(f.text for f in verdict.reasons)


@pytest.mark.parametrize("tier", list(Tier))
def test_good_measurements_pass_in_both_tiers(good_set: Set, tier: Tier) -> None:
    verdict = judge(good_set(), tier)
    assert verdict.outcome is Outcome.PASSED
    assert verdict.cases == 3
    assert verdict.reasons == ()


@pytest.mark.parametrize("tier", list(Tier))
def test_zero_cases_are_unknown_never_passed(good_set: Set, tier: Tier) -> None:
    verdict = judge(good_set(cases=()), tier)
    assert verdict.outcome is Outcome.UNKNOWN
    assert "no case counted" in texts(verdict)


def test_only_void_cases_are_unknown_and_are_listed(good_set: Set, good_case: Case) -> None:
    missed = (ControlResult("uniform_attention", True, 0.9999, 0.999, False),)
    verdict = judge(good_set(cases=(good_case(controls=missed),)), Tier.SWEEP)
    assert verdict.outcome is Outcome.UNKNOWN
    assert verdict.cases == 0
    assert verdict.void_cases == (("draw0-mixed-right-device", "controls not caught: uniform_attention"),)


def test_void_case_neither_passes_nor_fails(good_set: Set, good_case: Case) -> None:
    void = good_case(controls=(), lowest_token_cosine=0.1)
    verdict = judge(good_set(cases=(good_case(), void)), Tier.SWEEP)
    assert verdict.outcome is Outcome.PASSED
    assert len(verdict.void_cases) == 1


WRONG_CASES = {
    "lowest_token_cosine": {"lowest_token_cosine": THRESHOLDS["device_token_cosine"] - 1e-4},
    "token_nan": {"lowest_token_cosine": NAN},
    "norm_low": {"norm_low": 1 - THRESHOLDS["norm_tolerance"] - 1e-4},
    "norm_high": {"norm_high": 1 + THRESHOLDS["norm_tolerance"] + 1e-4},
    "norm_nan": {"norm_low": NAN, "norm_high": NAN},
    "pooled": {"pooled_cosine": THRESHOLDS["pooled_cosine"] - 1e-4},
    "centred": {"centred_pooled_cosine": THRESHOLDS["centred_pooled_cosine"] - 1e-4},
    "company": {"company_token_cosine": THRESHOLDS["company_token_cosine"] - 1e-4},
    "error_ratio": {"error_ratio": THRESHOLDS["error_ratio_unknown"] + 1e-3},
    "error_ratio_nan": {"error_ratio": NAN},
    "finite": {"finite": False},
    "cpu": {"place": Place.CPU, "lowest_token_cosine": THRESHOLDS["cpu_token_cosine"] - 1e-4},
}


@pytest.mark.parametrize("changes", WRONG_CASES.values(), ids=WRONG_CASES.keys())
def test_one_figure_on_the_wrong_side_fails_the_set(good_set: Set, good_case: Case, changes: dict[str, object]) -> None:
    verdict = judge(good_set(cases=(good_case(), good_case(name="wrong", **changes))), Tier.SWEEP)
    assert verdict.outcome is Outcome.FAILED
    assert verdict.reasons[0].outcome is Outcome.FAILED
    assert "wrong" in verdict.reasons[0].text


@pytest.mark.parametrize(
    "changes",
    [
        {"lowest_token_cosine": THRESHOLDS["device_token_cosine"]},
        {"pooled_cosine": THRESHOLDS["pooled_cosine"]},
        {"error_ratio": THRESHOLDS["error_ratio_pass"]},
        {"norm_low": 1 - THRESHOLDS["norm_tolerance"]},
        {"centred_pooled_cosine": None},
    ],
)
def test_a_figure_on_the_limit_passes(good_set: Set, good_case: Case, changes: dict[str, object]) -> None:
    assert judge(good_set(cases=(good_case(**changes),)), Tier.SWEEP).outcome is Outcome.PASSED


def test_error_ratio_between_the_limits_is_unknown(good_set: Set, good_case: Case) -> None:
    assert judge(good_set(cases=(good_case(error_ratio=2.0),)), Tier.SWEEP).outcome is Outcome.UNKNOWN


def test_a_failure_outweighs_missing_evidence(good_set: Set, good_case: Case) -> None:
    verdict = judge(good_set(cases=(good_case(finite=False),), execution=None), Tier.FULL)
    assert verdict.outcome is Outcome.FAILED


MISSING_EVERYWHERE = {
    "no execution proof": {"execution": None},
    "no block on the device": {"execution": ExecutionProof({})},
    "document without oracle": {"documents": 1},
}


@pytest.mark.parametrize("changes", MISSING_EVERYWHERE.values(), ids=MISSING_EVERYWHERE.keys())
@pytest.mark.parametrize("tier", list(Tier))
def test_missing_evidence_is_unknown(good_set: Set, tier: Tier, changes: dict[str, object]) -> None:
    assert judge(good_set(**changes), tier).outcome is Outcome.UNKNOWN


def test_full_tier_asks_for_more_than_sweep(good_set: Set, good_case: Case) -> None:
    alone = good_case(company_token_cosine=None, centred_pooled_cosine=None)
    thin = good_set(cases=(alone,), depth="2 of 12", needs_left_padding=True, weights=Weights.REAL)
    assert judge(thin, Tier.SWEEP).outcome is Outcome.PASSED
    full = judge(thin, Tier.FULL)
    assert full.outcome is Outcome.UNKNOWN
    for wanted in ("independent draws", "CPU", "alone", "mean-centred", "left", "ranking", "full depth"):
        assert wanted in texts(full)


def test_a_device_case_without_error_ratio_is_unknown(good_set: Set, good_case: Case) -> None:
    assert judge(good_set(cases=(good_case(error_ratio=None),)), Tier.SWEEP).outcome is Outcome.UNKNOWN


def test_cpu_cases_alone_prove_nothing_about_the_device(good_set: Set, good_case: Case) -> None:
    verdict = judge(good_set(cases=(good_case(place=Place.CPU),)), Tier.SWEEP)
    assert verdict.outcome is Outcome.UNKNOWN
    assert "no counted case ran on the device" in texts(verdict)


def test_undeclared_fallback_fails_and_declared_passes(good_set: Set) -> None:
    proof = ExecutionProof({"aten.gelu": 3, "aten.embedding": 1}, ("aten.embedding",), 3)
    assert judge(good_set(execution=proof), Tier.FULL).outcome is Outcome.FAILED
    declared = ExecutionProof({"aten.embedding": 1}, ("aten.embedding",), 3)
    assert judge(good_set(execution=declared), Tier.FULL).outcome is Outcome.PASSED


def test_spearman_counts_for_real_weights_only(good_set: Set) -> None:
    poor = {"spearman": 0.9, "spearman_pairs": 1128}
    assert judge(good_set(**poor), Tier.FULL).outcome is Outcome.PASSED
    assert judge(good_set(**poor, weights=Weights.REAL), Tier.FULL).outcome is Outcome.FAILED
    few = {"spearman": 1.0, "spearman_pairs": 3}
    assert judge(good_set(**few, weights=Weights.REAL), Tier.FULL).outcome is Outcome.UNKNOWN


def element(**changes: object) -> ElementwiseResult:
    fields = {"max_ulp": 2.0, "max_relative": 1e-15, "max_error": 1e-15, "exact_misses": 0}
    fields |= {"name": "P01", "points": 100, "specials_equal": True, "elementwise": True, **changes}
    return ElementwiseResult(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"points": 0},
        {"exact_misses": 1},
        {"specials_equal": False},
        {"elementwise": False},
        {"bound": 1e-6, "max_error": 1e-5},
        {"bound": 1e-6, "max_error": NAN},
    ],
)
def test_element_wise_oracle_refuses(good_set: Set, changes: dict[str, object]) -> None:
    verdict = judge(good_set(elementwise=(element(**changes),), documents=1), Tier.FULL)
    assert verdict.outcome is Outcome.FAILED


def test_element_wise_oracle_accepts_exact_and_bounded(good_set: Set) -> None:
    results = (element(), element(bound=1e-6, max_error=1e-7, exact_misses=50))
    assert judge(good_set(elementwise=results, documents=2), Tier.FULL).outcome is Outcome.PASSED


def test_exact_point_needs_ulp_or_relative() -> None:
    assert exact_point(4, 1)
    assert exact_point(100, 1e-12)
    assert not exact_point(5, 1e-11)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, None),
        ({"controls": ()}, "no control was run"),
        ({"controls": (ControlResult("x", False),)}, "no control was run"),
        ({"ideal_token_cosine": None}, "without the ideal"),
        ({"ideal_token_cosine": 0.9985}, "would reach only 0.9985"),
        ({"ideal_token_cosine": NAN}, "would reach only nan"),
    ],
)
def test_void_reasons(good_case: Case, changes: dict[str, object], expected: str | None) -> None:
    reason = void_reason(good_case(**changes), Weights.SYNTHETIC)
    assert (reason is None) if expected is None else (reason is not None and expected in reason)


def test_the_rounding_check_does_not_void_real_weights(good_case: Case) -> None:
    assert void_reason(good_case(ideal_token_cosine=0.998), Weights.REAL) is None


def test_a_control_is_caught_below_the_limit_or_as_nan() -> None:
    assert control_caught("zeros", 0.0, None)
    assert control_caught("zeros", NAN, None)
    assert not control_caught("uniform_attention", 0.9999, 0.5)
    assert control_caught("wrong_pooling", None, 0.98)
    assert not control_caught("wrong_pooling", None, 0.995)
    assert not control_caught("nothing", None, None)


def exception(**changes: object) -> GateException:
    fields = {"threshold": "device_token_cosine", "value": 0.98, "evidence": "e" * 64, "owner": "ada"}
    fields |= {"expires": date(2030, 1, 1), "reason": "known drift", **changes}
    return GateException(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("changes", [{"evidence": ""}, {"owner": ""}, {"reason": ""}, {"threshold": "no_such"}])
def test_an_exception_needs_evidence_owner_reason_and_a_known_threshold(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"exception|threshold"):
        exception(**changes)


def test_an_exception_holds_until_it_expires_and_is_named(good_set: Set, good_case: Case) -> None:
    measured = good_set(cases=(good_case(lowest_token_cosine=0.985),))
    held = judge(measured, Tier.SWEEP, [exception()], today=date(2029, 12, 31))
    assert held.outcome is Outcome.PASSED
    assert held.exceptions == ("device_token_cosine 0.98 until 2030-01-01 (ada)",)
    expired = judge(measured, Tier.SWEEP, [exception()], today=date(2030, 1, 2))
    assert expired.outcome is Outcome.FAILED
    assert expired.exceptions == ()


def test_measurements_survive_json_with_figures_that_are_not_finite(good_set: Set, good_case: Case) -> None:
    odd = good_case(lowest_token_cosine=NAN, norm_high=float("inf"), error_ratio=None)
    before = good_set(cases=(odd,), elementwise=(element(),), notes={"bucket": 64})
    after = measurements_from_dict(json.loads(json.dumps(before.to_dict(), allow_nan=False)))
    assert after.to_dict() == before.to_dict()
    assert judge(after, Tier.SWEEP).outcome is Outcome.FAILED


def test_the_verdict_is_plain_data_with_a_sentence(good_set: Set) -> None:
    data = json.loads(json.dumps(judge(good_set(cases=()), Tier.SWEEP).to_dict()))
    assert data["outcome"] == "unknown"
    assert data["sentence"].startswith("unknown on 0 cases (0 not counted, tier sweep)")


def test_not_applicable_controls_are_reported(good_set: Set) -> None:
    assert judge(good_set(), Tier.SWEEP).not_applicable == ("glu_swapped: ",)


def test_the_gate_imports_no_torch() -> None:
    code = "import sys, pipeline.verification.gate, pipeline.verification.evidence, pipeline.verification.seeds, \
pipeline.weights.synthetic.recipe; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
