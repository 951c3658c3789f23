"""Stored evidence is measured again by the queue: a real worker, a real model, the same verdict to the letter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.catalogue.local_hub import LocalHub

from .service import Service
from .test_factory_loop import LOOP_S, MINILM, hub_models, outcome, waiting

REPLAY_S = 900.0


def ended(service: Service, number: int) -> dict[str, Any] | None:
    """The evidence's only replay, once it has ended."""
    [replay] = service.get(f"evidence/{number}")["replays"]
    return dict(replay) if replay["outcome"] else None


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_worker_measures_the_evidence_of_a_real_model_again(tmp_path: Path) -> None:
    with LocalHub(hub_models()[:1]) as hub:
        settings = {"HF_ENDPOINT": hub.url, "SPYRE_FACTORY_RELEASES": "none"}
        with Service(tmp_path / "data", settings, "--sweep", "hub") as service:
            service.log_in()
            service.wait_for("a waiting candidate", lambda: waiting(service), LOOP_S)
            [candidate] = waiting(service)
            evidence = service.get(f"reviews/{candidate['id']}")["evidence"][0]
            assert (evidence["outcome"], evidence["weights"]) == ("passed", "real")
            path, body = f"/api/v1/evidence/{evidence['id']}/replay", {"threads": 2}
            asked = service.client.post(path, json=body)
            assert asked.status_code == 202, asked.text
            assert service.client.post(path, json=body).json()["id"] == asked.json()["id"], "one replay, asked twice"
            replay = service.wait_for("the replay", lambda: ended(service, evidence["id"]), REPLAY_S)
            assert (replay["outcome"], replay["identical"], replay["agrees"]) == ("passed", True, True), replay
            assert replay["beyond_tolerance"] == []
            assert outcome(service, MINILM) == "failed", "a replay decides nothing"
            assert [item["id"] for item in waiting(service)] == [candidate["id"]]
        service.command("db", "check")
