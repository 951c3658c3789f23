"""The `rules` drafter: selection, order, merging, documents, what is left over."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest

from adapters.patches.registry import check_set, patch_from
from agents.drafters import DraftedPatch, compose
from agents.drafters.rules import RulesDrafter
from agents.drafters.rules.documents import NotRewritable, capture_stock, to_document, to_term
from agents.drafters.rules.merge import MergeConflict, merge_uses
from agents.drafters.rules.patterns import ORDER, PATTERNS, ROWS
from agents.types import (
    Candidate,
    Diagnosis,
    DraftContext,
    Drafter,
    Exactness,
    FailureKind,
    PatchDraft,
    PatternUse,
    canonical,
)

Diagnose = Callable[..., Diagnosis]
GELU_NEW = "transformers.activations.NewGELUActivation"
P56 = ("P56", {"dtype": "float16"})


def only(drafter: RulesDrafter, diagnoses: list[Diagnosis], context: DraftContext) -> Candidate:
    candidates = list(drafter.draft(diagnoses, context))
    assert len(candidates) == 1
    return candidates[0]


def patterns(candidate: Candidate) -> list[str]:
    return [patch.pattern for patch in candidate.patches]


def test_every_cause_is_cured_in_canonical_order(
    minilm_causes: list[Diagnosis], pow_cause: Diagnosis, context: DraftContext
) -> None:
    candidate = only(RulesDrafter(), [*minilm_causes, pow_cause], context)
    assert patterns(candidate) == ["P56", "P20", "P01", "P40", "P54", "P61", "P63", "P80"]
    assert (candidate.family, candidate.profile, candidate.dtype) == ("albert", "profile-2026-08", "float16")
    assert all(patch.cures and patch.drafter is Drafter.RULES for patch in candidate.patches)


def test_the_order_of_the_diagnoses_does_not_change_the_digest(
    minilm_causes: list[Diagnosis], context: DraftContext
) -> None:
    first = only(RulesDrafter(), minilm_causes, context).digest
    shuffled = list(minilm_causes)
    random.Random(3).shuffle(shuffled)
    assert only(RulesDrafter(), shuffled, context).digest == first


def test_each_patch_says_which_failure_it_cures(minilm_causes: list[Diagnosis], context: DraftContext) -> None:
    candidate = only(RulesDrafter(), minilm_causes, context)
    heads = next(p for p in candidate.patches if p.pattern == "P20")
    assert heads.cures == (
        "attention heads of 32 are padded with zeros to 64, the scale stays that of 32: "
        "cures layout of aten.view.default at modeling.py:10",
    )


def test_length_padding_brings_the_mask_it_needs(diagnose: Diagnose, context: DraftContext) -> None:
    candidate = only(RulesDrafter(), [diagnose(("P63", {}))], context)
    assert [(p.pattern, p.parameters) for p in candidate.patches] == [
        ("P40", {"fill": "finfo_min_half"}),
        ("P63", {"multiple": 64, "side": "right"}),
    ]
    assert candidate.patches[0].cures[0].endswith("needed by P63")


def test_length_padding_brings_no_mask_where_attention_makes_its_own(diagnose: Diagnose, context: DraftContext) -> None:
    """DeBERTa's takes none: with P40 the set would not apply."""
    causes = [diagnose(("P63", {})), diagnose(("P49", {}))]
    assert patterns(only(RulesDrafter(), causes, context)) == ["P30", "P49", "P63"]


def test_grouped_keys_bring_the_mask_without_which_they_refuse_a_causal_model(
    diagnose: Diagnose, context: DraftContext
) -> None:
    candidate = only(RulesDrafter(), [diagnose(("P55", {}), op="aten.expand.default")], context)
    assert patterns(candidate) == ["P45", "P55"]


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (["P54", "P42"], ["P42"]),
        (["P54", "P55", "P42"], ["P42"]),
        (["P54", "P41", "P42"], ["P41"]),
        (["P54", "P55"], ["P45", "P55"]),
    ],
)
def test_attention_written_anew_covers_what_else_is_asked_of_attention(
    asked: list[str], wanted: list[str], diagnose: Diagnose, context: DraftContext
) -> None:
    causes = [diagnose((pattern, {}), op=f"aten.op_{pattern}.default") for pattern in asked]
    candidate = only(RulesDrafter(), causes, context)
    assert patterns(candidate) == wanted
    assert len(candidate.patches[-1].cures) == len(asked), "a cause that is covered is said to be cured"
    check_set([patch_from({"pattern": p.pattern, "parameters": p.parameters}) for p in candidate.patches])


def test_of_several_options_the_one_that_needs_fewest_patches_is_taken(
    diagnose: Diagnose, context: DraftContext
) -> None:
    causes = [diagnose(("P54", {}), ("P61", {}), op="a"), diagnose(("P61", {}), op="b")]
    assert patterns(only(RulesDrafter(), causes, context)) == ["P61"]


def test_a_rejected_candidate_is_never_drafted_again(diagnose: Diagnose, context: DraftContext) -> None:
    causes = [diagnose(("P54", {}), ("P61", {}))]
    seen = []
    for _ in range(2):
        candidate = only(RulesDrafter(), causes, context)
        seen.append(patterns(candidate))
        context = replace(context, rejected={**context.rejected, candidate.digest: "wrong values"})
    assert seen == [["P54"], ["P61"]]
    assert list(RulesDrafter().draft(causes, context)) == []
    assert RulesDrafter().leftovers(causes) == []


def test_a_draft_that_is_asked_for_less_error_keeps_what_earlier_failures_taught(
    diagnose: Diagnose, context: DraftContext
) -> None:
    """GPT-Neo's third draft took up the set that its first verdict had refused, only with P57 added."""
    causes, seen = [diagnose(("P54", {}), ("P61", {}), ("P60", {}))], []
    rounding = diagnose(("P57", {}), op="model", kind=FailureKind.WRONG_VALUES)
    first = only(RulesDrafter(), causes, context)
    context = replace(context, rejected={first.digest: "wrong values"})
    second = only(RulesDrafter(), causes, context)
    context = replace(context, rejected={**context.rejected, second.digest: "too much error"})
    context = replace(context, inexact=frozenset({second.digest}), added=(rounding,))
    for _ in range(2):
        candidate = only(RulesDrafter(), [*causes, rounding], context)
        seen.append(patterns(candidate))
        context = replace(context, rejected={**context.rejected, candidate.digest: "wrong values"})
    assert [patterns(first), patterns(second)] == [["P54"], ["P61"]]
    assert seen == [["P57", "P61"], ["P57", "P60"]]


def test_a_cause_without_a_cure_means_no_candidate_and_is_reported(
    minilm_causes: list[Diagnosis], diagnose: Diagnose, context: DraftContext
) -> None:
    odd = diagnose(("P00", {}), op="aten.cumsum.default")
    causes = [*minilm_causes, odd]
    assert list(RulesDrafter().draft(causes, context)) == []
    [left] = RulesDrafter().leftovers(causes)
    assert left.diagnosis == odd
    assert left.reason == "P00 is not in the rules' pattern table"


def test_a_cause_that_names_no_pattern_is_left_over(diagnose: Diagnose) -> None:
    [left] = RulesDrafter().leftovers([diagnose()])
    assert left.reason == "the diagnosis names no pattern"


def test_a_cause_that_follows_from_another_needs_no_cure_of_its_own(diagnose: Diagnose, context: DraftContext) -> None:
    causes = [diagnose(P56), diagnose(after=True)]
    assert patterns(only(RulesDrafter(), causes, context)) == ["P56"]


def test_a_cause_that_needs_no_patch_is_not_cured(diagnose: Diagnose, context: DraftContext) -> None:
    assert list(RulesDrafter().draft([diagnose(P56, no_patch="decomposed in this profile")], context)) == []
    assert RulesDrafter().leftovers([diagnose(no_patch="x")]) == []


def test_wrong_values_that_cannot_be_patched_leave_nothing_to_draft(diagnose: Diagnose, context: DraftContext) -> None:
    product = diagnose(op="aten.mm.default", kind=FailureKind.WRONG_VALUES, no_patch="cannot be patched: alone wrong")
    (left,) = RulesDrafter().leftovers([diagnose(P56), product])
    assert (left.diagnosis, left.reason) == (product, "cannot be patched: alone wrong")
    assert list(RulesDrafter().draft([diagnose(P56), product], context)) == []


def test_a_parameter_that_is_missing_is_named(diagnose: Diagnose) -> None:
    [left] = RulesDrafter().leftovers([diagnose(("P20", {"head_dim": 32}))])
    assert left.reason == "P20 lacks padded_head_dim"


def test_hidden_patterns_are_left_to_another_drafter(pow_cause: Diagnosis, context: DraftContext) -> None:
    hidden = frozenset({"P01"})
    assert list(RulesDrafter().draft([pow_cause], replace(context, hidden_patterns=hidden))) == []
    [left] = RulesDrafter().leftovers([pow_cause], hidden)
    assert left.reason == "P01 is hidden from the rules"


def test_parameters_merge_by_the_table() -> None:
    uses = [
        PatternUse("P63", {"multiple": 64, "side": "right"}),
        PatternUse("P63", {"multiple": 96, "side": "right"}),
        PatternUse("P56", {"dtype": "float16"}),
        PatternUse("P56", {"dtype": "bfloat16"}),
        PatternUse("P20", {"head_dim": 32, "padded_head_dim": 64}),
        PatternUse("P20", {"head_dim": 32, "padded_head_dim": 128}),
    ]
    merged = {use.pattern: use.parameters for use in merge_uses(uses)}
    assert merged == {
        "P56": {"dtype": "bfloat16"},
        "P20": {"head_dim": 32, "padded_head_dim": 128},
        "P40": {"fill": "finfo_min_half"},
        "P63": {"multiple": 192, "side": "right"},
    }


def test_a_conflict_that_cannot_be_merged_is_left_over_for_both(diagnose: Diagnose, context: DraftContext) -> None:
    causes = [
        diagnose(("P63", {"side": "right"}), op="a"),
        diagnose(("P63", {"side": "left"}), op="b"),
        diagnose(P56, op="c"),
    ]
    left = RulesDrafter().leftovers(causes)
    assert [item.diagnosis.failure.op for item in left] == ["a", "b"]
    assert left[0].reason == "P63: one cause needs side='right', another side='left'"
    assert list(RulesDrafter().draft(causes, context)) == []


def test_a_conflict_is_avoided_where_another_option_exists(diagnose: Diagnose, context: DraftContext) -> None:
    causes = [
        diagnose(("P63", {"side": "right"}), op="a"),
        diagnose(("P63", {"side": "left"}), ("P54", {}), op="b"),
    ]
    assert RulesDrafter().leftovers(causes) == []
    assert patterns(only(RulesDrafter(), causes, context)) == ["P40", "P54", "P63"]


def test_merging_an_unknown_conflict_raises() -> None:
    with pytest.raises(MergeConflict, match="head_dim=32"):
        merge_uses([PatternUse("P20", {"head_dim": 32}), PatternUse("P20", {"head_dim": 64})])


def test_the_document_of_gelu_new_holds_products_and_its_proof(pow_cause: Diagnosis, context: DraftContext) -> None:
    patch = only(RulesDrafter(), [pow_cause], context).patches[0]
    ops = [node["op"] for node in patch.parameters["document"]["nodes"]]
    assert "aten.pow.Tensor_Scalar" not in ops
    assert ops.count("aten.mul.Tensor") == 5  # x*sigmoid(2z) instead of 0.5*x*(1 + tanh(z))
    assert "aten.sigmoid.default" in ops
    assert patch.exactness is Exactness.EXACT
    assert patch.proof[0].startswith("pow(x, 3.0) -> mul(mul(x, x), x) by pow_cube")


def test_the_drafted_document_is_the_stock_module(pow_cause: Diagnosis, context: DraftContext) -> None:
    import torch
    from transformers.activations import NewGELUActivation

    from adapters.document import build

    document = only(RulesDrafter(), [pow_cause], context).patches[0].parameters["document"]
    x = torch.linspace(-40, 40, 5121, dtype=torch.float64).reshape(3, 3, 569)
    assert torch.allclose(build(document)(x), NewGELUActivation()(x), rtol=0, atol=1e-14)


def cubes(*exponents: float) -> dict[str, Any]:
    """A document that adds powers of its input."""
    nodes: list[dict[str, Any]] = [{"op": "aten.pow.Tensor_Scalar", "args": [{"ref": 0}, e]} for e in exponents]
    total = 1
    for number in range(2, len(exponents) + 1):
        nodes.append({"op": "aten.add.Tensor", "args": [{"ref": total}, {"ref": number}]})
        total = len(nodes)
    return {"version": 1, "nodes": nodes, "output": {"ref": total}}


def test_a_power_no_cause_names_may_stay(pow_cause: Diagnosis, context: DraftContext) -> None:
    drafter = RulesDrafter(capture=lambda name: cubes(3.0, 2.5))
    [patch] = only(drafter, [pow_cause], context).patches
    exponents = [node["args"][1] for node in patch.parameters["document"]["nodes"] if "pow" in node["op"]]
    assert exponents == [2.5]


def test_one_document_serves_all_causes_of_a_module_class(
    diagnose: Diagnose, pow_cause: Diagnosis, context: DraftContext
) -> None:
    root = diagnose(("P01", {"module_class": GELU_NEW}), op="aten.pow", scalars=(0.5,))
    [patch] = only(RulesDrafter(capture=lambda name: cubes(3.0, 0.5)), [pow_cause, root], context).patches
    assert not any("pow" in node["op"] for node in patch.parameters["document"]["nodes"])
    assert len(patch.proof) == 2
    assert len(patch.cures) == 2


def test_a_power_no_rule_knows_is_left_over_with_its_form(diagnose: Diagnose, pow_cause: Diagnosis) -> None:
    odd = diagnose(("P01", {"module_class": GELU_NEW}), op="aten.pow.Tensor_Scalar", scalars=(2.5,))
    [left] = RulesDrafter(capture=lambda name: cubes(3.0, 2.5)).leftovers([pow_cause, odd])
    assert left.diagnosis == odd
    assert left.reason == f"no rewrite rule fits pow(x, 2.5) of {GELU_NEW!r}"


def test_an_operation_the_module_does_not_hold_is_left_over(diagnose: Diagnose) -> None:
    odd = diagnose(("P01", {"module_class": GELU_NEW}), op="aten.erf.default")
    [left] = RulesDrafter(capture=lambda name: cubes(3.0)).leftovers([odd])
    assert "does not occur in" in left.reason


def test_a_diagnosis_without_a_module_class_gets_no_document(diagnose: Diagnose) -> None:
    [left] = RulesDrafter().leftovers([diagnose(("P01", {}), op="aten.pow.Tensor_Scalar")])
    assert "names no module class" in left.reason


@pytest.mark.parametrize(
    "name", ["os.system", "torch.nn.Linear", "transformers.activations.NoSuchClass", "transformers.no_such_module.X"]
)
def test_only_stock_element_wise_classes_are_captured(name: str) -> None:
    with pytest.raises(NotRewritable, match=name):
        capture_stock(name)


def test_terms_and_documents_are_two_forms_of_one_thing() -> None:
    document = cubes(2.0, 3.0, 2.0)
    shared = to_document(to_term(document))
    assert to_term(shared) == to_term(document)
    assert len(shared["nodes"]) == len(document["nodes"]) - 1


def test_a_tensor_by_keyword_is_not_taken() -> None:
    node = {"op": "aten.mul.Tensor", "args": [{"ref": 0}], "kwargs": {"other": {"ref": 0}}}
    with pytest.raises(NotRewritable, match="by keyword"):
        to_term({"version": 1, "nodes": [node], "output": {"ref": 1}})


def test_compose_adds_the_rules_patches_for_all_other_causes(
    minilm_causes: list[Diagnosis], pow_cause: Diagnosis, context: DraftContext
) -> None:
    parameters = {"module_class": GELU_NEW, "document": cubes(3.0)}
    given = DraftedPatch(PatchDraft("P01", parameters, Drafter.LLM, model="scripted"), (pow_cause,))
    candidate = compose([given], [*minilm_causes, pow_cause], replace(context, hidden_patterns=frozenset({"P01"})))
    assert candidate is not None
    assert patterns(candidate) == ["P56", "P20", "P01", "P40", "P54", "P61", "P63", "P80"]
    assert [p.model for p in candidate.patches if p.drafter is Drafter.LLM] == ["scripted"]
    assert candidate.patches[2].cures[0].endswith("cures wrong_values of aten.pow.Tensor_Scalar at activations.py:57")


def test_compose_refuses_when_another_cause_has_no_cure(
    diagnose: Diagnose, pow_cause: Diagnosis, context: DraftContext
) -> None:
    given = DraftedPatch(PatchDraft("P01", {"module_class": GELU_NEW}, Drafter.LLM), (pow_cause,))
    assert compose([given], [pow_cause, diagnose()], context) is None


def test_a_set_of_only_given_patches_is_a_candidate(pow_cause: Diagnosis, context: DraftContext) -> None:
    given = DraftedPatch(PatchDraft("P01", {"module_class": GELU_NEW}, Drafter.LLM), (pow_cause,))
    candidate = compose([given], [pow_cause], context)
    assert candidate is not None
    assert patterns(candidate) == ["P01"]


def test_no_diagnoses_give_no_candidate(context: DraftContext) -> None:
    assert list(RulesDrafter().draft([], context)) == []


def test_parameters_are_plain_json(minilm_causes: list[Diagnosis], pow_cause: Diagnosis, context: DraftContext) -> None:
    assert canonical(only(RulesDrafter(), [*minilm_causes, pow_cause], context).to_dict())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_every_row_has_a_patch_with_these_parameters_and_this_claim(row: Any) -> None:
    from adapters.patches.registry import PATTERNS as PATCHES

    patch = PATCHES[row.id]
    assert set(row.parameters) == {field.name for field in fields(patch)}
    assert (row.exactness.value, row.bound) == (patch.exactness, patch.bound)


def test_every_patch_of_the_library_has_a_row() -> None:
    from adapters.patches.registry import PATTERNS as PATCHES

    assert set(PATCHES) == set(PATTERNS) == set(ORDER)


def test_a_rotary_set_keeps_its_own_masks_where_padding_needs_one(diagnose: Diagnose, context: DraftContext) -> None:
    causes = [
        diagnose(("P21", {"head_dim": 32, "padded_head_dim": 64})),
        diagnose(("P45", {})),
        diagnose(("P63", {"multiple": 64, "side": "left"}), op="sdpa"),
    ]
    assert patterns(only(RulesDrafter(), causes, context)) == ["P21", "P14", "P45", "P63"]
