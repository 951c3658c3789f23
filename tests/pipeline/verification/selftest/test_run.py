"""The self-test's report: rates by class, nothing right that was not judged, full runs go on where they were."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from pipeline.cli import gate as cli
from pipeline.inspection.chain import read_chain
from pipeline.settings import get_settings
from pipeline.verification.selftest import run
from pipeline.verification.selftest.judge import Judgement
from pipeline.verification.selftest.run import ACCEPT, REFUSE, Batch, Item, Outcome, batches, items, rates_of
from pipeline.verification.selftest.stored import last_report, store_report
from pipeline.verification.selftest.whole import write_checkpoint
from pipeline.verification.selftest.worker import outcome_of

WRONG = Outcome("a", "outputs", REFUSE, accepted=False, stage="equivalence", reason="differs")
ACCEPTED_WRONG = Outcome("b", "outputs", REFUSE, accepted=True, stage="accepted", reason="")
HONEST = Outcome("c", "patterns", ACCEPT, accepted=True, stage="accepted", reason="")
REJECTED = Outcome("d", "patterns", ACCEPT, accepted=False, stage="capture", reason="x")
EQUIVALENT = Outcome("e", "mutants", REFUSE, accepted=True, stage="accepted", reason="", equivalent=True)


def by_class(*outcomes: Outcome) -> dict[str, dict[str, Any]]:
    return {rate["class"]: rate for rate in rates_of(outcomes)}


def test_rates_count_wrong_and_honest_candidates_apart() -> None:
    rates = by_class(WRONG, ACCEPTED_WRONG, HONEST, REJECTED)
    assert (rates["outputs"]["false_accepts"], rates["outputs"]["false_accept_rate"]) == (1, 0.5)
    assert (rates["patterns"]["false_rejects"], rates["patterns"]["false_reject_rate"]) == (1, 0.5)
    assert (rates["all"]["wrong"], rates["all"]["honest"]) == (2, 2)


def test_a_class_without_candidates_has_no_rate() -> None:
    assert by_class(WRONG)["outputs"]["false_reject_rate"] is None
    assert by_class()["all"]["false_accept_rate"] is None


def test_an_equivalent_mutant_is_no_mistake_and_no_wrong_candidate() -> None:
    assert EQUIVALENT.right
    assert by_class(EQUIVALENT)["mutants"]["wrong"] == 0


@pytest.mark.parametrize("outcome", [ACCEPTED_WRONG, REJECTED])
def test_a_wrong_judgement_is_not_right(outcome: Outcome) -> None:
    assert not outcome.right


def item(says: str) -> Item:
    return Item("x", "outputs", REFUSE, "bert", (), says=says)


def test_a_refusal_for_another_reason_is_not_right() -> None:
    from pipeline.verification.selftest.entry import Stage

    refused = Judgement(False, Stage.CAPTURE, "the disk is full")
    assert not outcome_of(item("equivalent"), refused).right
    assert outcome_of(item("disk"), refused).right


def test_an_honest_candidate_with_a_pooling_is_verified_whole_in_the_full_run() -> None:
    pooled = [i for i in items(full=True) if i.pooling]
    assert {i.pooling for i in pooled} == {"cls", "lasttoken", "weightedmean"}
    assert all(i.whole and i.expected == ACCEPT for i in pooled)
    assert not [i for i in items(full=False) if i.pooling]


@pytest.mark.parametrize(("pooling", "found"), [("lasttoken", ("lasttoken",)), ("", ("mean",))])
def test_a_checkpoint_that_is_verified_whole_declares_its_pooling(
    pooling: str, found: tuple[str, ...], tmp_path: Path
) -> None:
    def read(name: str) -> Any:
        path = tmp_path / name
        return json.loads(path.read_text()) if path.exists() else None

    write_checkpoint(tmp_path, {"model_type": "bert"}, pooling)
    assert read("config.json") == {"model_type": "bert"}
    chain = read_chain(read, read("config.json"))
    assert (chain.pooling, chain.declared) == (found, bool(pooling))


def dead(_batch: Mapping[str, Any], _folder: Path) -> str:
    return "the child ended with status 9"


def test_a_batch_that_dies_makes_every_check_of_it_wrong(tmp_path: Path) -> None:
    honest = Item("y", "patterns", ACCEPT, "bert", ())
    found = run.outcomes_of(Batch((item("x"), honest)), tmp_path, dead)
    assert [o.right for o in found] == [False, False]
    assert [o.right for o in run.outcomes_of(Batch(mutants=3), tmp_path, dead)] == [False]
    assert list(tmp_path.iterdir()) == []


def test_a_finished_batch_is_not_judged_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Mapping[str, Any]] = []

    def child(batch: Mapping[str, Any], folder: Path) -> list[dict[str, Any]]:
        calls.append(batch)
        return [{**WRONG.__dict__}]

    batch = Batch((item("x"),))
    assert run.outcomes_of(batch, tmp_path, child) == run.outcomes_of(batch, tmp_path, child) == [WRONG]
    assert len(calls) == 1
    monkeypatch.setattr(run, "verifier_digest", lambda: "f" * 64)
    run.outcomes_of(batch, tmp_path, child)
    assert len(calls) == 2


def test_the_quick_run_judges_cheats_honest_candidates_and_a_hundred_mutants() -> None:
    work = batches(full=False, seed=3)
    judged = [i for b in work for i in b.items]
    assert sum(b.mutants for b in work) == 100
    assert sum(i.expected == REFUSE for i in judged) >= 60
    assert sum(i.expected == ACCEPT and not i.name.startswith("twin") for i in judged) >= 60
    assert len({b.key for b in work}) == len(work)


def test_the_full_run_judges_drafted_code_behind_the_source_rules_too() -> None:
    full = list(items(full=True))
    assert len({i.name for i in full}) == len(full)
    behind = [i for i in full if i.group.endswith(run.BEHIND)]
    assert len(behind) > 100
    assert not any(i.with_source for i in behind)


def test_the_last_report_is_found_again(tmp_path: Path) -> None:
    assert last_report(tmp_path) is None
    store_report(tmp_path, {"date": "2026-01-01", "rates": []})
    assert last_report(tmp_path) == {"date": "2026-01-01", "rates": []}


def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, outcomes: list[Outcome], *options: str) -> tuple[int, str]:
    from datetime import UTC, datetime

    monkeypatch.setenv("SPYRE_FACTORY_DATA_DIR", str(tmp_path))
    get_settings.cache_clear()
    report = run.report_of(outcomes, False, datetime.now(UTC))
    monkeypatch.setattr(run, "run_selftest", lambda **_: report)
    app = typer.Typer()
    cli.register(app)
    result = CliRunner().invoke(app, ["gate", "selftest", *options])
    get_settings.cache_clear()
    return result.exit_code, result.stdout


def test_the_command_prints_one_document_with_the_agreed_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    status, text = command(monkeypatch, tmp_path, [WRONG, ACCEPTED_WRONG, HONEST], "--json")
    document = json.loads(text)
    assert status == 1
    assert (document["passed"], document["failed"], len(document["checks"])) == (2, 1, 3)
    assert set(document["checks"][0]) == {"name", "passed", "detail"}
    assert last_report(tmp_path) == document


def test_the_command_prints_rates_with_date_and_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    status, text = command(monkeypatch, tmp_path, [WRONG, HONEST, EQUIVALENT])
    assert status == 0
    assert "false accepts 0 of 1" in text
    assert "false rejects 0 of 1" in text
    assert "3 of 3 judged rightly, 20" in text
    assert "counted as no mistake: e" in text
