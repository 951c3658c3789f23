"""Verdicts of a card: evidence runs through the package of the card, and what comes out is kept apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pipeline.cli.main import build_app
from pipeline.database.artefacts import store_bytes
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.errors import EnvironmentProblem
from pipeline.execution import replay_evidence
from pipeline.execution.replay_evidence import replay
from pipeline.hardware.service import summaries
from pipeline.review.evidence import list_evidence
from pipeline.verification.evidence import (
    EVIDENCE_KIND,
    EVIDENCE_MEDIA,
    pack_evidence,
)
from tests.pipeline.execution.tiny_evidence import PROFILE, tiny_evidence_in

STUB = f"""
from pathlib import Path
import sim_backend
from sim_backend import autoload
from sim_backend.device import start

autoload.real_device_installed = lambda: False
Path(__file__).with_name("started").touch()
sim_backend.use_profile({PROFILE!r})
start()
"""


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Evidence of a tiny adapted model, made on the simulator."""
    return tiny_evidence_in(tmp_path_factory.mktemp("tiny"), tmp_path_factory.mktemp("work"), layers=1)


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stub of the card's package, here and in children, that starts the simulator; the folder it is in."""
    folder = tmp_path / "card"
    folder.mkdir()
    (folder / "torch_spyre.py").write_text(STUB)
    monkeypatch.syspath_prepend(folder)
    ours = replay_evidence.children_env

    def with_card(home: Path, **how: Any) -> dict[str, str]:
        env = ours(home, **how)
        return {**env, "PYTHONPATH": f"{env['PYTHONPATH']}:{folder}"}

    monkeypatch.setattr(replay_evidence, "children_env", with_card)
    return folder


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_the_verdict_of_a_card_is_kept_apart(evidence: dict[str, Any], card: Path, database: str) -> None:
    with unit_of_work() as session:
        address = store_bytes(session, pack_evidence(evidence), EVIDENCE_KIND, EVIDENCE_MEDIA)
    command = ["evidence", "replay", address[:12], "--device", "hardware", "--json"]
    done = CliRunner().invoke(build_app(), command)
    assert done.exit_code == 0, done.output
    assert (card / "started").exists()
    listed = json.loads(CliRunner().invoke(build_app(), ["evidence", "hardware", "--json"]).output)["hardware"]
    assert [(r["document"], r["simulated"], r["outcome"]) for r in listed] == [(address, "passed", "passed")]
    assert listed[0]["versions"]["torch_spyre"] is None
    with reading() as session:
        assert summaries(session) == listed
        assert list_evidence(session) == []


def test_without_a_card_nothing_is_run(evidence: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="needs the package torch_spyre"):
        replay(evidence, tmp_path, device="hardware")
    assert list(tmp_path.iterdir()) == []
