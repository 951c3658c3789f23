"""`evidence replay`: the same verdict document whatever the threads and instruction set, in processes of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agents.types import Candidate, Drafter, PatchDraft
from pipeline.cli.main import build_app
from pipeline.database.artefacts import store_bytes
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import BadInput
from pipeline.execution.check import base_spec, matching_manifest, run_stage
from pipeline.execution.child import run_stage as child_stage
from pipeline.execution.folders import packaged_folder
from pipeline.execution.replay_evidence import Capability, Replayed, replay
from pipeline.verification.evidence import EVIDENCE_KIND, EVIDENCE_MEDIA

from .tiny_evidence import CONFIG, PATCHES, PROFILE, evidence_of, tiny_evidence_in

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
WAYS: list[tuple[int, Capability]] = [(1, "default"), (2, "avx2"), (1, "avx2"), (2, "default")]
"""The first two hold each number of threads and each instruction set once."""


@pytest.fixture(scope="module")
def tiny_evidence(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Evidence for a tiny model with synthetic weights and no tokenizer, under an adapter."""
    return tiny_evidence_in(tmp_path_factory.mktemp("tiny"), tmp_path_factory.mktemp("work"), layers=2)


def minilm_evidence(tier: str, work: Path) -> dict[str, Any]:
    """Evidence for the real MiniLM with the adapter that ships with the factory."""
    spec = base_spec(str(packaged_folder(MINILM)), PROFILE, "auto", "simulator", work)
    family = run_stage("inspect", spec)["family"]
    manifest = matching_manifest(family, PROFILE)
    assert manifest is not None
    return evidence_of({**spec, "tier": tier, "family": family, "adapter": manifest}, work)


def candidate_evidence(folder: Path, work: Path) -> dict[str, Any]:
    """Evidence for a candidate of the tiny model: captured, judged for equivalence, run from its documents."""
    (folder / "config.json").write_text(json.dumps(CONFIG))
    drafts = tuple(PatchDraft(p["pattern"], p["parameters"], Drafter.RULES) for p in PATCHES)
    candidate = Candidate("tiny", PROFILE, "float16", drafts).to_dict()
    spec = base_spec(str(folder), PROFILE, "synthetic", "simulator", work)
    return evidence_of({**spec, "candidate": candidate}, work)


def assert_same(done: Replayed) -> None:
    assert done.identical, done.differences
    assert done.agrees, [str(m) for m in done.moved if not m.agrees]
    assert done.environment == ()
    assert len(done.moved) > 8


def test_a_tiny_model_gives_the_same_document(tiny_evidence: dict[str, Any], tmp_path: Path) -> None:
    assert_same(replay(tiny_evidence, tmp_path, threads=1, capability="default"))


def test_what_needs_text_is_not_applicable_and_stands_in_the_document(tiny_evidence: dict[str, Any]) -> None:
    assert tiny_evidence["measurements"]["without_text"]["ranking"] == "the checkpoint has no tokenizer"
    assert tiny_evidence["verdict"]["document"]["cases"][0]["outcome"] == "passed"


def test_a_replay_that_measures_something_else_is_seen(
    tiny_evidence: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = json.loads(json.dumps(tiny_evidence))
    other["measurements"]["cases"][0]["lowest_token_cosine"] = 0.5
    monkeypatch.setattr("pipeline.execution.replay_evidence.run_again", lambda *_: other)
    done = replay(tiny_evidence, tmp_path)
    assert (done.outcome, done.identical, done.agrees) == ("failed", False, False)
    assert "outcome: 'passed' was stored, 'failed' now" in done.differences


def test_another_environment_is_named(
    tiny_evidence: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.execution.replay_evidence.run_again", lambda *_: tiny_evidence)
    then = {**tiny_evidence["environment"], "torch": "1.0"}
    done = replay({**tiny_evidence, "environment": then}, tmp_path)
    assert done.identical
    assert [line.split(":")[0] for line in done.environment] == ["torch"]


@pytest.mark.parametrize(("cases", "outcome"), [(slice(None), "passed"), (slice(1, None), "failed")])
def test_the_stage_of_a_replay_passes_only_if_the_same_verdict_comes_out(
    tiny_evidence: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cases: slice, outcome: str
) -> None:
    kept = {**tiny_evidence["measurements"], "cases": tiny_evidence["measurements"]["cases"][cases]}
    again = {**tiny_evidence, "measurements": kept}
    monkeypatch.setattr("pipeline.execution.replay_evidence.run_again", lambda *_: again)
    how = {"document": "0" * 64, "threads": 2, "capability": "avx2"}
    out = child_stage("replay", {"document": tiny_evidence, "how": how, "workdir": str(tmp_path)})
    assert (out["outcome"], out["evidence"]) == (outcome, how)
    assert bool(out["measurements"]["differences"]) == (outcome == "failed")


def test_evidence_without_a_spec_cannot_be_replayed(tiny_evidence: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="nothing to run again"):
        replay({**tiny_evidence, "replay": {}}, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_real_minilm_gives_the_same_document(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    assert_same(replay(minilm_evidence("sweep", first), second, threads=2, capability="default"))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_full_evidence_of_the_real_minilm_comes_out_the_same_every_way(tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    document = minilm_evidence("full", first)
    for number, (threads, capability) in enumerate(WAYS[:2]):
        work = tmp_path / str(number)
        work.mkdir()
        assert_same(replay(document, work, threads=threads, capability=capability))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_candidate_gives_the_same_document_every_way(tmp_path: Path) -> None:
    folder, first = tmp_path / "model", tmp_path / "first"
    folder.mkdir()
    first.mkdir()
    document = candidate_evidence(folder, first)
    assert [e["result"] for e in document["measurements"]["equivalence"]] == ["exact"] * (len(PATCHES) + 1)
    for number, (threads, capability) in enumerate(WAYS):
        work = tmp_path / str(number)
        work.mkdir()
        done = replay(document, work, threads=threads, capability=capability)
        assert done.identical, done.differences
        assert done.agrees, [str(m) for m in done.moved if not m.agrees]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_the_command_replays_stored_evidence_by_its_address(tiny_evidence: dict[str, Any], database: str) -> None:
    from pipeline.verification.evidence import pack_evidence

    with unit_of_work() as session:
        address = store_bytes(session, pack_evidence(tiny_evidence), EVIDENCE_KIND, EVIDENCE_MEDIA)
    runner, app = CliRunner(), build_app()
    shown = runner.invoke(app, ["evidence", "show", address[:10]])
    assert "passed   draw0-mixed-right-device" in shown.output
    done = runner.invoke(app, ["evidence", "replay", address[:10], "--threads", "2", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert (found["address"], found["identical"], found["agrees"]) == (address, True, True)
    unknown = runner.invoke(app, ["evidence", "replay", "f" * 12])
    assert unknown.exit_code == 1
