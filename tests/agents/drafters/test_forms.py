"""Where a diagnosis names no usable pattern, the rules for whole rows find the one whose formula is the cure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from agents.drafters.rules import RulesDrafter
from agents.drafters.rules.forms import forms_for
from agents.types import Diagnosis, DraftContext, Failure, FailureKind

PROFILE = "profile-2026-08"
CONTEXT = DraftContext("x", PROFILE, "float16")


def failure(op: str, kind: FailureKind = FailureKind.UNSUPPORTED_OP, place: str = "block") -> Failure:
    return Failure(kind, op, "modeling.py:1", "layers.*.norm", "no", place=place)


@pytest.mark.parametrize(
    ("op", "patterns"),
    [
        ("aten.native_layer_norm.default", ["P11"]),
        ("aten.layer_norm.default", ["P11"]),
        ("aten._scaled_dot_product_fused_attention_overrideable.default", ["P42"]),
        ("aten.erf.default", ["P03"]),
        ("aten.pow.Tensor_Scalar", []),
        ("aten.topk.default", []),
    ],
)
def test_the_form_without_the_operation_names_the_pattern(op: str, patterns: list[str]) -> None:
    assert [use.pattern for use in forms_for(failure(op), PROFILE)] == patterns


def test_a_pattern_whose_own_formula_holds_the_operation_is_no_cure() -> None:
    assert list(forms_for(failure("aten.rsqrt.default"), PROFILE)) == []
    assert list(forms_for(failure("aten.matmul.default"), PROFILE)) == []


def test_the_rules_draft_it_with_its_proof_and_not_where_it_is_hidden_or_refused_before() -> None:
    drafter, cause = RulesDrafter(), Diagnosis(failure("aten.native_layer_norm.default"))
    [candidate] = drafter.draft([cause], CONTEXT)
    [patch] = candidate.patches
    assert (patch.pattern, bool(patch.proof)) == ("P11", True)
    assert list(drafter.draft([cause], replace(CONTEXT, hidden_patterns=frozenset({"P11"})))) == []
    assert list(drafter.draft([cause], replace(CONTEXT, rejected={candidate.digest: "no"}))) == []


@pytest.mark.parametrize(
    "change", [lambda f: replace(f, place="outside"), lambda f: replace(f, kind=FailureKind.TIMEOUT)]
)
def test_what_no_form_can_cure_is_left(change: Callable[[Failure], Failure]) -> None:
    cause = Diagnosis(change(failure("aten.native_layer_norm.default")))
    [left] = RulesDrafter().leftovers([cause], profile=PROFILE)
    assert left.reason == "the diagnosis names no pattern"
