"""The diagnosis benchmark's own parts: faults are distinct and hidden, verdicts ask for operation and condition."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import pipeline.diagnosis
from benchmarks.diagnosis import cases, in_rounds
from benchmarks.diagnosis_faults import CONDITIONS, Fault, fault_from, known_faults, random_faults
from benchmarks.diagnosis_judge import judge

SDPA = "aten._scaled_dot_product_fused_attention_overrideable.default"
TRANSPOSED = Fault("E-17", conditions=frozenset({"layout"}))


def out(condition: str | None, op: str = "aten.scaled_dot_product_attention.default", **more: Any) -> dict[str, Any]:
    cause = {"kind": "wrong_values", "op": op, "condition": condition, "reproducer": None, **more}
    return {"truth": [{"op": SDPA, "kind": "wrong_values", "place": "block"}], "causes": [cause]}


def test_the_right_operation_with_the_right_condition_is_named() -> None:
    verdict = judge([TRANSPOSED], out("layout"))
    assert verdict.triggered
    assert verdict.kind
    assert verdict.named
    assert verdict.false_causes == 0


@pytest.mark.parametrize(
    "wrong", [out("length"), out("layout", "aten.linear.default"), {**out("layout"), "causes": []}]
)
def test_another_condition_another_operation_or_silence_is_a_miss(wrong: dict[str, Any]) -> None:
    assert not judge([TRANSPOSED], wrong).named


def test_a_cause_on_a_clean_model_is_false() -> None:
    assert judge([], {**out("value"), "truth": []}).false_causes == 1


def test_silence_is_neither_kind_nor_name() -> None:
    assert not judge([TRANSPOSED], {**out("layout"), "causes": []}).kind


def test_faults_are_distinct_seeded_and_survive_their_file() -> None:
    first, again = list(random_faults(1, 30)), list(random_faults(1, 30))
    assert first == again
    assert len({f.random for f in first}) == 30
    known = list(known_faults())
    assert {f.name for f in known} >= set(CONDITIONS)
    assert [fault_from(f.to_dict()) for f in [*first, *known]] == [*first, *known]


def test_the_cases_cover_every_known_fault_and_are_named_apart() -> None:
    planned = list(cases(180, 30))
    assert len({c.name for c in planned}) == len(planned)
    assert {f.name for c in planned for f in c.faults if c.sort == "known"} == {f.name for f in known_faults()}


def test_the_diagnosis_names_no_erratum_and_imports_none() -> None:
    for path in Path(pipeline.diagnosis.__file__).parent.rglob("*.py"):
        text = path.read_text()
        assert not re.search(r"\bE-\d\d\b", text), path
        assert "sim_backend.errata" not in text, path


LENGTH = Fault("E-22", conditions=frozenset({"length"}))


def test_faults_named_so_far_are_switched_off_until_all_are_named() -> None:
    asked: list[list[str]] = []

    def hides_the_second(left: Any) -> dict[str, Any]:
        asked.append([f.name for f in left])
        return {**out("layout" if TRANSPOSED in left else "length"), "wall": 2.0}

    whole = in_rounds([TRANSPOSED, LENGTH], hides_the_second)
    assert asked == [["E-17", "E-22"], ["E-22"]]
    assert [c["condition"] for c in whole["causes"]] == ["layout", "length"]
    assert (whole["rounds"], whole["wall"]) == (2, 4.0)


def test_a_round_that_names_nothing_or_has_no_answer_is_the_last() -> None:
    assert in_rounds([LENGTH], lambda _: {**out("layout"), "wall": 1.0})["rounds"] == 1
    assert in_rounds([LENGTH], lambda _: {"error": "died", "wall": 1.0}) == {"error": "died", "wall": 1.0}
