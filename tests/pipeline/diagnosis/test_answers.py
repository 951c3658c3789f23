"""Where no pattern applies, the diagnosis says that none is needed, or why there can be none and what to do."""

from __future__ import annotations

import pytest

from agents.types import Failure, FailureKind
from pipeline.diagnosis.answers import ADVICE, IMPOSSIBLE, NO_OTHER_FORM, NOT_NEEDED, advice_for, answer_for
from pipeline.diagnosis.patterns import Facts
from pipeline.diagnosis.service import diagnose_failures, diagnose_findings
from pipeline.diagnosis.wrong_values.findings import Finding
from pipeline.execution.diagnosis_report import is_harmless, next_step


def failure(kind: FailureKind) -> Failure:
    return Failure(kind, op="aten.x.default", source="m.py:1", module="layers.*", message="")


def cause(kind: FailureKind) -> dict[str, object]:
    no_patch = answer_for(kind)
    return {"kind": kind, "no_patch": no_patch, "patterns": [], "op": "aten.x.default", "source": "m.py:1"}


@pytest.mark.parametrize("kind", sorted(IMPOSSIBLE))
def test_what_cannot_be_patched_says_why_and_is_never_a_pass(kind: FailureKind) -> None:
    assert not is_harmless(cause(kind))
    assert next_step([cause(kind)], "", []) == f"cannot be patched: {IMPOSSIBLE[kind]}"


@pytest.mark.parametrize("kind", sorted(NOT_NEEDED))
def test_right_values_need_no_patch(kind: FailureKind) -> None:
    assert is_harmless(cause(kind))
    assert next_step([cause(kind)], "", []) == "No patch is needed."


def test_an_overflow_of_the_host_asks_for_no_patch_and_keeps_its_measurements() -> None:
    found = diagnose_findings([Finding(failure(FailureKind.CPU_REFERENCE), None, {"largest": 1e5})], Facts())
    assert found[0].no_patch == NOT_NEEDED[FailureKind.CPU_REFERENCE]
    assert found[0].evidence == {"largest": 1e5}


@pytest.mark.parametrize("op", ["aten.mm.default", "aten.addmm.default", "aten.linear.default"])
def test_a_product_that_is_wrong_for_a_size_alone_has_no_other_form(op: str) -> None:
    product = Failure(FailureKind.WRONG_VALUES, op, "m.py:1", "layers.*.mlp", "wrong at 8960", scalars=("size",))
    answer = diagnose_failures([product], Facts())[0].no_patch
    assert answer == f"cannot be patched: {NO_OTHER_FORM} (wrong at 8960)"


@pytest.mark.parametrize(("op", "condition"), [("aten.mm.default", "layout"), ("aten.add.Tensor", "size")])
def test_what_another_order_or_form_may_cure_stays_open(op: str, condition: str) -> None:
    wrong = Failure(FailureKind.WRONG_VALUES, op, "m.py:1", "layers.*.mlp", "", scalars=(condition,))
    assert diagnose_failures([wrong], Facts())[0].no_patch is None


def test_a_refused_operation_stays_open_for_a_drafter() -> None:
    assert diagnose_failures([failure(FailureKind.UNSUPPORTED_OP)], Facts())[0].no_patch is None


@pytest.mark.parametrize("kind", sorted(ADVICE))
def test_a_crash_or_a_hang_says_what_to_do_and_claims_nothing_about_patches(kind: FailureKind) -> None:
    assert advice_for(kind) == ADVICE[kind]
    assert answer_for(kind) is None
