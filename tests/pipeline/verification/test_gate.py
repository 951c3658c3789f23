"""The gate: every threshold refuses on its wrong side, nothing passes by absence, void cases never count."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date

import pytest

from pipeline.verification.gate import is_caught, judge, pooled_error_ratio, rules_of, void_reason
from pipeline.verification.measurements import (
    CaseMeasurement,
    ControlResult,
    Equivalence,
    EquivalenceResult,
    ExecutionProof,
    Measurements,
    Place,
    Weights,
    measurements_from_dict,
)
from pipeline.verification.policy import GateException, PolicyRefused, current_policy
from pipeline.verification.verdict import Outcome, Tier, Verdict

from .conftest import CONTROLS

Case = Callable[..., CaseMeasurement]
Set = Callable[..., Measurements]
NAN = float("nan")
THRESHOLDS = current_policy().limits("embedding", "float16")
NEAR = current_policy().tolerance


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
    "norm_low": {"norm_low": 1 - THRESHOLDS["norm_tolerance"] - 2 * NEAR["norm_ratio"]},
    "norm_high": {"norm_high": 1 + THRESHOLDS["norm_tolerance"] + 2 * NEAR["norm_ratio"]},
    "norm_high_nan": {"norm_high": NAN},
    "norm_nan": {"norm_low": NAN, "norm_high": NAN},
    "pooled": {"pooled_cosine": THRESHOLDS["pooled_cosine"] - 1e-4},
    "centred": {"centred_pooled_cosine": THRESHOLDS["centred_pooled_cosine"] - 1e-4},
    "company": {"company_token_cosine": THRESHOLDS["company_token_cosine"] - 1e-4},
    "error_ratio": {"error_ratio": THRESHOLDS["error_ratio_unknown"] + 2 * NEAR["error_ratio"]},
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
        {"lowest_token_cosine": THRESHOLDS["device_token_cosine"] + NEAR["lowest_token_cosine"]},
        {"pooled_cosine": THRESHOLDS["pooled_cosine"] + NEAR["pooled_cosine"]},
        {"error_ratio": THRESHOLDS["error_ratio_pass"] - NEAR["error_ratio"]},
        {"norm_low": 1 - THRESHOLDS["norm_tolerance"] + 1.01 * NEAR["norm_ratio"]},
        {"centred_pooled_cosine": None},
    ],
)
def test_a_figure_clear_of_its_limit_passes(good_set: Set, good_case: Case, changes: dict[str, object]) -> None:
    assert judge(good_set(cases=(good_case(**changes),)), Tier.SWEEP).outcome is Outcome.PASSED


ON_THE_LIMIT = {
    "token": {"lowest_token_cosine": THRESHOLDS["device_token_cosine"]},
    "pooled": {"pooled_cosine": THRESHOLDS["pooled_cosine"] - NEAR["pooled_cosine"] / 2},
    "company": {"company_token_cosine": THRESHOLDS["company_token_cosine"]},
    "norm": {"norm_low": 1 - THRESHOLDS["norm_tolerance"]},
    "norm, other end": {"norm_high": 1 + THRESHOLDS["norm_tolerance"]},
    "error": {"error_ratio": THRESHOLDS["error_ratio_unknown"]},
    "control": {"controls": (*CONTROLS, ControlResult("layer_skipped", True, THRESHOLDS["control_cosine"]))},
    "ideal": {"ideal_token_cosine": THRESHOLDS["ideal_token_cosine"] - NEAR["ideal_token_cosine"] / 2},
}


@pytest.mark.parametrize("changes", ON_THE_LIMIT.values(), ids=ON_THE_LIMIT.keys())
def test_a_figure_nearer_to_its_limit_than_a_replay_can_tell_is_unknown(
    good_set: Set, good_case: Case, changes: dict[str, object]
) -> None:
    verdict = judge(good_set(cases=(good_case(), good_case(name="near", **changes))), Tier.SWEEP)
    assert verdict.outcome is Outcome.UNKNOWN
    assert [c.outcome for c in verdict.per_case] == [Outcome.PASSED, Outcome.UNKNOWN]


def test_a_rank_correlation_on_its_limit_is_unknown(good_set: Set) -> None:
    figures = {"spearman": THRESHOLDS["spearman"], "spearman_pairs": 1128, "weights": Weights.REAL}
    assert judge(good_set(**figures), Tier.FULL).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("ratio", [THRESHOLDS["error_ratio_pass"], 2.0, THRESHOLDS["error_ratio_unknown"] - 0.1])
def test_an_error_ratio_between_the_limits_over_all_cases_is_unknown(
    good_set: Set, good_case: Case, ratio: float
) -> None:
    cases = (good_case(error_ratio=ratio), good_case(name="other", error_ratio=ratio))
    verdict = judge(good_set(cases=cases), Tier.SWEEP)
    assert verdict.outcome is Outcome.UNKNOWN
    assert [f.measure for f in verdict.of_the_set] == ["error_ratio"]


def test_one_text_whose_error_scatters_does_not_decide_for_the_set(good_set: Set, good_case: Case) -> None:
    cases = (good_case(error_ratio=1.3), good_case(name="scatters", error_ratio=1.6))
    assert judge(good_set(cases=cases), Tier.SWEEP).outcome is Outcome.PASSED


def test_the_ratio_of_the_set_weighs_cases_by_their_tokens(good_set: Set, good_case: Case) -> None:
    short = good_case(name="short", error_ratio=1.0, tokens=10)
    long = good_case(name="long", error_ratio=2.0, tokens=990)
    assert pooled_error_ratio([short, long]) == pytest.approx((0.01 * 1 + 0.99 * 4) ** 0.5)
    assert judge(good_set(cases=(short, long)), Tier.SWEEP).outcome is Outcome.UNKNOWN


def test_a_void_case_has_no_part_in_the_ratio_of_the_set(good_set: Set, good_case: Case) -> None:
    void = good_case(name="void", controls=(), error_ratio=2.9)
    assert judge(good_set(cases=(good_case(error_ratio=1.3), void)), Tier.SWEEP).outcome is Outcome.PASSED


def test_a_failure_outweighs_missing_evidence(good_set: Set, good_case: Case) -> None:
    verdict = judge(good_set(cases=(good_case(finite=False),), execution=None), Tier.FULL)
    assert verdict.outcome is Outcome.FAILED


MISSING_EVERYWHERE = {
    "no execution proof": {"execution": None},
    "no block on the device": {"execution": ExecutionProof({})},
    "patch without equivalence": {"patches": 1},
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


def same(**changes: object) -> Equivalence:
    fields = {"patch": "P01", "claim": "exact", "result": EquivalenceResult.EXACT, "method": "values", "points": 100}
    return Equivalence(**{**fields, "bound": 1e-15, **changes})  # type: ignore[arg-type]


BOUNDED = {"claim": "bounded", "result": EquivalenceResult.BOUNDED, "claimed_bound": 1e-6}


@pytest.mark.parametrize(
    "changes",
    [
        {"result": EquivalenceResult.NOT_EQUIVALENT, "input_that_shows_it": "x = 2.7"},
        {"result": EquivalenceResult.BOUNDED},
        {**BOUNDED, "bound": 1e-5},
        {**BOUNDED, "bound": NAN},
        {**BOUNDED, "bound": None},
    ],
)
def test_other_mathematics_or_more_than_was_found_is_refused(good_set: Set, changes: dict[str, object]) -> None:
    verdict = judge(good_set(equivalence=(same(**changes),), patches=1), Tier.FULL)
    assert verdict.outcome is Outcome.FAILED
    assert str(changes.get("input_that_shows_it", "P01")) in texts(verdict)
    assert not any(c.isdigit() for c in verdict.reasons[0].rule.replace("P01", ""))


@pytest.mark.parametrize("changes", [{"result": EquivalenceResult.UNKNOWN, "detail": "no window"}, {"points": 0}])
def test_unknown_mathematics_or_no_compared_value_is_unknown(good_set: Set, changes: dict[str, object]) -> None:
    verdict = judge(good_set(equivalence=(same(**changes),), patches=1), Tier.SWEEP)
    assert verdict.outcome is Outcome.UNKNOWN
    assert str(changes.get("detail", "nothing was compared")) in texts(verdict)


def test_exact_and_bounded_patches_within_their_claims_pass(good_set: Set) -> None:
    found = (same(), same(**BOUNDED, bound=1e-7))
    assert judge(good_set(equivalence=found, patches=2), Tier.FULL).outcome is Outcome.PASSED


def test_equivalences_come_back_from_json_as_they_were(good_set: Set) -> None:
    found = good_set(equivalence=(same(bound=NAN, detail="differs"), same(**BOUNDED)), patches=2)
    again = measurements_from_dict(json.loads(json.dumps(found.to_dict())))
    assert again.equivalence[1] == found.equivalence[1]
    assert again.equivalence[0].result is EquivalenceResult.EXACT
    assert again.equivalence[0].bound != again.equivalence[0].bound


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, None),
        ({"controls": ()}, "no control was run"),
        ({"controls": (ControlResult("x", False),)}, "no control was run"),
        ({"controls": CONTROLS[:1]}, "too few structural controls"),
        ({"controls": (*CONTROLS, ControlResult("echo", False, broken=True))}, "could not be run: echo"),
        ({"ideal_token_cosine": None}, "without the ideal"),
        ({"ideal_token_cosine": 0.9985}, "would reach only 0.9985"),
        ({"ideal_token_cosine": NAN}, "would reach only nan"),
    ],
)
def test_void_reasons(good_case: Case, changes: dict[str, object], expected: str | None) -> None:
    reason = void_reason(good_case(**changes), rules_of(Measurements(Weights.SYNTHETIC)))
    assert (reason is None) if expected is None else (reason is not None and expected in reason.text)


def test_the_rounding_check_does_not_void_real_weights(good_case: Case) -> None:
    assert void_reason(good_case(ideal_token_cosine=0.998), rules_of(Measurements(Weights.REAL))) is None


def test_a_control_is_caught_below_the_limit_or_as_nan() -> None:
    def caught(token: float | None, centred: float | None) -> bool:
        return is_caught(ControlResult("any", True, token, centred), THRESHOLDS)

    assert caught(0.0, None)
    assert caught(NAN, None)
    assert not caught(0.9999, 0.5)
    assert caught(None, 0.98)
    assert not caught(None, 0.995)
    assert not caught(None, None)


def exception(**changes: object) -> GateException:
    fields = {"threshold": "device_token_cosine", "value": 0.98, "evidence": "e" * 64, "owner": "ada", "family": "bert"}
    fields |= {"expires": date(2030, 1, 1), "reason": "known drift", **changes}
    return GateException(**fields)  # type: ignore[arg-type]


INCOMPLETE = [{"evidence": ""}, {"owner": ""}, {"reason": ""}, {"family": ""}, {"threshold": "no"}, {"expires": "soon"}]


@pytest.mark.parametrize("changes", INCOMPLETE)
def test_an_exception_needs_evidence_owner_reason_expiry_and_a_known_threshold(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"exception|threshold"):
        exception(**changes)


def test_an_exception_holds_until_it_expires_and_is_named(good_set: Set, good_case: Case) -> None:
    measured = good_set(cases=(good_case(lowest_token_cosine=0.985),), family="bert")
    policy = replace(current_policy(), exceptions=(exception(),))
    held = judge(measured, Tier.SWEEP, policy, today=date(2029, 12, 31))
    assert held.outcome is Outcome.PASSED
    assert held.exceptions == ("device_token_cosine 0.98 until 2030-01-01 (ada)",)
    expired = judge(measured, Tier.SWEEP, policy, today=date(2030, 1, 2))
    assert expired.outcome is Outcome.FAILED
    assert expired.exceptions == ()
    other = judge(replace(measured, family="mpnet"), Tier.SWEEP, policy, today=date(2029, 12, 31))
    assert other.outcome is Outcome.FAILED, "an exception is for one family"


def test_measurements_survive_json_with_figures_that_are_not_finite(good_set: Set, good_case: Case) -> None:
    odd = good_case(lowest_token_cosine=NAN, norm_high=float("inf"), error_ratio=None)
    before = good_set(cases=(odd,), equivalence=(same(),), notes={"bucket": 64})
    after = measurements_from_dict(json.loads(json.dumps(before.to_dict(), allow_nan=False)))
    assert after.to_dict() == before.to_dict()
    assert judge(after, Tier.SWEEP).outcome is Outcome.FAILED


def test_the_verdict_is_plain_data_with_a_sentence(good_set: Set) -> None:
    data = json.loads(json.dumps(judge(good_set(cases=()), Tier.SWEEP).to_dict()))
    assert data["outcome"] == "unknown"
    assert data["sentence"].startswith("unknown on 0 cases (0 not counted, tier sweep)")


def test_what_is_not_applicable_is_reported(good_set: Set) -> None:
    assert judge(good_set(), Tier.SWEEP).not_applicable == ("glu_swapped: no gated feed-forward",)
    assert "ranking: synthetic weights rank nothing" in judge(good_set(), Tier.FULL).not_applicable


NO_TOKENIZER = dict.fromkeys(("empty_text", "scripts", "ranking"), "the checkpoint has no tokenizer")


def test_oracles_that_need_text_are_shown_as_not_applicable_without_a_tokenizer(good_set: Set, good_case: Case) -> None:
    textless = {"scripts": (), "empty_texts": 0}
    cases = tuple(replace(case, **textless) for case in good_set().cases)
    figures = {"cases": cases, "weights": Weights.REAL}
    assert judge(good_set(**figures), Tier.FULL).outcome is Outcome.UNKNOWN
    verdict = judge(good_set(**figures, without_text=NO_TOKENIZER), Tier.FULL)
    assert verdict.outcome is Outcome.PASSED
    assert {f"{name}: the checkpoint has no tokenizer" for name in NO_TOKENIZER} <= set(verdict.not_applicable)


def test_no_other_oracle_can_be_declared_not_applicable(good_set: Set) -> None:
    verdict = judge(good_set(depth="2 of 12", without_text={"full_depth": "too large"}), Tier.FULL)
    assert verdict.outcome is Outcome.UNKNOWN


def test_each_case_has_its_own_verdict_and_the_document_has_no_figure(good_set: Set, good_case: Case) -> None:
    void = good_case(name="void", controls=())
    cases = (good_case(), good_case(name="bad", lowest_token_cosine=0.987654), good_case(name="slow", error_ratio=3.0))
    document = judge(good_set(cases=(*cases, void)), Tier.SWEEP).document()
    found = {c["case"]: c["outcome"] for c in document["cases"]}
    assert found == {"draw0-mixed-right-device": "passed", "bad": "failed", "slow": "unknown", "void": "void"}
    moved = (cases[0], replace(cases[1], lowest_token_cosine=0.9875), replace(cases[2], error_ratio=3.004))
    again = judge(good_set(cases=(*moved, void)), Tier.SWEEP)
    assert json.dumps(again.document()) == json.dumps(document), "figures that moved a little change nothing"
    assert all(name not in json.dumps(document) for name in ("0.98765", "3.004"))


def test_an_output_that_could_not_be_compared_fails_its_case(good_set: Set, good_case: Case) -> None:
    empty = good_case(name="empty", problem="the output is empty", lowest_token_cosine=NAN, error_ratio=None)
    verdict = judge(good_set(cases=(empty,)), Tier.SWEEP)
    assert verdict.outcome is Outcome.FAILED
    assert verdict.per_case[0].reasons[0].rule == "the output is empty"


def test_a_bf16_yardstick_is_named(good_set: Set, good_case: Case) -> None:
    verdict = judge(good_set(cases=(good_case(error_ratio=2.0, yardstick="bfloat16"),)), Tier.SWEEP)
    assert "bf16 run (fp16 is not finite)" in texts(verdict)


def test_a_task_or_dtype_the_policy_does_not_list_is_not_judged(good_set: Set) -> None:
    with pytest.raises(PolicyRefused, match="no thresholds for task 'translation'"):
        judge(good_set(task="translation"), Tier.SWEEP)
    with pytest.raises(PolicyRefused, match="in 'int8'"):
        judge(good_set(dtype="int8"), Tier.SWEEP)


def test_the_gate_imports_no_torch() -> None:
    code = "import sys, pipeline.verification.gate, pipeline.verification.evidence, pipeline.verification.seeds, \
pipeline.weights.synthetic.recipe; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
