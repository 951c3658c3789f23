"""The diagnosis benchmark's own parts: faults are distinct and hidden, verdicts ask for operation and condition."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

import pipeline.diagnosis
from benchmarks.diagnosis import State, figures
from benchmarks.diagnosis_cases import AT_ONCE, RANDOM, Case, cases, drawn, never_triggered
from benchmarks.diagnosis_families import FAMILIES
from benchmarks.diagnosis_faults import (
    CARRIER,
    CONDITIONS,
    Fault,
    drift_faults,
    fault_from,
    known_faults,
    merged,
    random_faults,
)
from benchmarks.diagnosis_judge import judge
from benchmarks.diagnosis_modules import CONSTRUCTED, constructed
from benchmarks.diagnosis_run import NoAnswer, Server, answer, in_rounds, known_triggers, with_effect

SDPA = "aten._scaled_dot_product_fused_attention_overrideable.default"
TRANSPOSED = Fault("E-17", conditions=frozenset({"layout"}))


def out(condition: str | None, op: str = "aten.scaled_dot_product_attention.default", **more: Any) -> dict[str, Any]:
    cause = {"kind": "wrong_values", "op": op, "condition": condition, "reproducer": None, "evidence": {}, **more}
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


def test_a_fault_that_is_not_said_at_all_has_passed() -> None:
    assert judge([TRANSPOSED], {**out("layout"), "causes": []}).passed
    assert not judge([TRANSPOSED], out("length")).passed
    assert not judge([], {**out("layout"), "truth": [], "causes": []}).passed


def test_a_wrong_view_is_named_by_what_reads_through_it() -> None:
    truth = [{"op": "aten.slice.Tensor", "kind": "wrong_values", "place": "block"}]
    offset = Fault("E-35", conditions=frozenset({"offset"}))
    through = out("offset", "aten.mul.Tensor", message="wrong when it reads through aten.slice.Tensor in one graph")
    assert judge([offset], {**through, "truth": truth}).named
    assert not judge([offset], {**out("offset", "aten.mul.Tensor", message="wrong"), "truth": truth}).named


def test_random_faults_are_on_together_each_by_its_key() -> None:
    three = [f for f, _ in zip(random_faults(2), range(3), strict=False)]
    assert set(merged(three)["errata"][CARRIER]) == {f.random.key for f in three if f.random}


def test_of_several_faults_none_may_be_left() -> None:
    assert judge([TRANSPOSED, LENGTH], {**out("layout"), "left": []}).named
    assert not judge([TRANSPOSED, LENGTH], {**out("layout"), "left": ["E-22"]}).named


def test_drift_counts_with_its_curve() -> None:
    [fault, *_] = drift_faults()
    said = {"truth": [{"op": "model", "kind": "wrong_values", "place": "block"}], "causes": []}  # type: dict[str, Any]
    drift = {"kind": "wrong_values", "op": "model", "condition": "drift", "reproducer": None}
    with_curve = judge([fault], {**said, "causes": [{**drift, "evidence": {"curve": [{"own": 0.1}]}}]})
    assert with_curve.named
    assert with_curve.curve
    assert not judge([fault], {**said, "causes": [{**drift, "evidence": {}}]}).curve


def test_faults_are_distinct_seeded_and_survive_their_file() -> None:
    first, again = ([f for f, _ in zip(random_faults(1), range(30), strict=False)] for _ in range(2))
    assert first == again
    assert len({f.random for f in first}) == 30
    known = list(known_faults())
    assert {f.name for f in known} >= set(CONDITIONS)
    assert [fault_from(f.to_dict()) for f in [*first, *known]] == [*first, *known]


def test_pairs_are_those_that_trigger_and_thirty_random_faults_that_do() -> None:
    every = [f.name for f in known_faults()]
    by_family = {family: [f.name for f, drawn_for in drawn() if drawn_for == family] for family in FAMILIES}
    planned = list(cases({**dict.fromkeys(CONSTRUCTED, every), **by_family, "bert": ["E-17", *by_family["bert"]]}))
    assert len({c.name for c in planned}) == len(planned)
    seen = [c for c in planned if c.sort == "known" and not c.is_unseen]
    assert [c.name for c in seen] == ["known/E-17/bert"]
    assert sum(c.sort == "random" for c in planned) == RANDOM
    assert {c.family for c in planned if c.sort == "clean"} == set(FAMILIES)
    assert {c.family for c in planned if c.sort == "made"} == set(CONSTRUCTED)
    assert [c.family for c in planned if c.sort == "three"] == list(AT_ONCE)


def test_a_fault_that_triggers_nowhere_is_told() -> None:
    told = never_triggered({"bert": ["E-17"]})
    assert "E-17" not in told
    assert "E-22" in told


@pytest.mark.parametrize("name", CONSTRUCTED)
def test_a_constructed_model_runs_on_the_host(name: str) -> None:
    model = constructed(name)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.05, generator=torch.Generator().manual_seed(1))
        hidden = model(torch.arange(80).reshape(2, 40)).last_hidden_state
    assert hidden.shape == (2, 40, 128)
    assert bool(torch.isfinite(hidden).all())


class Told:
    """Stands for a server: what each task would answer."""

    def __init__(self, errors: list[float]) -> None:
        self.cpu, self.asked, self._errors = 0.0, 0, errors

    def error(self, _family: str, _faults: Any) -> float:
        return self._errors[0]

    def clean_error(self, _family: str) -> float:
        return self._errors[1]

    def diagnosed(self, *_args: Any, **_how: Any) -> dict[str, Any]:
        self.asked += 1
        raise NoAnswer("ended with -11")

    def triggers(self, _model: str) -> dict[str, Any]:
        raise NoAnswer("ended with -11")


def test_a_model_whose_triggers_are_not_known_ends_no_run_and_is_asked_again(tmp_path: Path) -> None:
    found = known_triggers(Told([]), "made-page", tmp_path / "kept.json")  # type: ignore[arg-type]
    assert (found["met"], found["error"]) == ([], "ended with -11")
    assert not (tmp_path / "kept.json").exists()


def border(server: Told) -> dict[str, Any]:
    fault = next(f for f in known_faults() if f.name == "E-18")
    return answer(Case("known", "bert", (fault,)), server, reproducers=False)  # type: ignore[arg-type]


def test_a_fault_that_only_a_run_shows_is_diagnosed_only_if_the_run_is_off() -> None:
    quiet = Told([0.011, 0.010])
    assert border(quiet)["truth"] == []
    assert quiet.asked == 0


def test_silence_on_a_fault_without_effect_is_no_miss() -> None:
    case, said = Case("known", "gpt2", (TRANSPOSED,)), {**out("layout"), "causes": [], "rounds": 1}
    quiet, loud = Told([0.011, 0.010]), Told([0.3, 0.010])
    without = with_effect(case, said, quiet)  # type: ignore[arg-type]
    assert (without["truth"], without["without_effect"]) == ([], said["truth"])
    assert judge(case.faults, with_effect(case, said, loud)).passed  # type: ignore[arg-type]


def test_a_case_without_an_answer_is_an_error() -> None:
    assert border(Told([0.3, 0.010]))["error"] == "ended with -11"


def test_answers_are_kept_one_by_one_for_one_state_of_the_sources(tmp_path: Path) -> None:
    case = Case("clean", "bert", ())
    State(tmp_path, "a").keep(case, {"truth": [], "causes": [], "cpu": 1.0})
    assert State(tmp_path, "a").get(case) == {"truth": [], "causes": [], "cpu": 1.0}
    assert State(tmp_path, "b").get(case) is None


def test_nothing_measured_meets_no_target_of_a_share() -> None:
    shares = [f for f in figures([], 0, 0.0, 0) if f.value is None]
    assert len(shares) == 4
    assert not any(f.met for f in shares)


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
        return out("layout" if TRANSPOSED in left else "length")

    whole = in_rounds([TRANSPOSED, LENGTH], hides_the_second)
    assert asked == [["E-17", "E-22"], ["E-22"]]
    assert [c["condition"] for c in whole["causes"]] == ["layout", "length"]
    assert (whole["rounds"], whole["left"]) == (2, [])


def test_a_round_that_names_nothing_is_the_last() -> None:
    whole = in_rounds([LENGTH], lambda _: out("layout"))
    assert (whole["rounds"], whole["left"]) == (1, ["E-22"])


@pytest.mark.long
def test_a_server_answers_and_says_why_not(tmp_path: Path) -> None:
    """Its tasks are forked; an unknown one has no answer and the server lives on."""
    server = Server(fresh=False)
    try:
        for _ in range(2):
            with pytest.raises(NoAnswer, match="ended with 2: KeyError"):
                server._ask(task="unknown", case="", out=str(tmp_path / "out"))
        assert server.cpu > 0
    finally:
        server.close()
