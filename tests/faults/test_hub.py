"""A Hub that refuses, breaks off, keeps silent or moves its branches, asked by the real client of a running service.

What is the Hub's fault is tried again and counts against no model; a checkpoint is of one commit, whatever moved.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.installation import Installation
from pipeline.catalogue.entry import CatalogueEntry
from pipeline.catalogue.local_hub import Fault, HubModel, LocalHub
from pipeline.database.unit_of_work import reading
from pipeline.settings import get_settings
from pipeline.sweeps import repository as sweeps
from pipeline.sweeps.models import Checkpoint
from pipeline.work.flow import CHECKPOINT_DIR
from pipeline.work.models import Run

from ..pipeline.conftest import listed
from ..pipeline.weights_fetch.conftest import CONFIG, weights_of
from .hub_child import PATIENCE_S
from .work import Work

CHILD = Path(__file__).with_name("hub_child.py")
WEIGHTS = "model.safetensors"
FAULTS: dict[Fault, tuple[str, str | None]] = {
    Fault.BUSY: ("answered 429; too many requests", None),
    Fault.ERROR: ("answered 503", None),
    Fault.SLOW: ("did not answer in time", None),
    Fault.TRUNCATED: ("broke off", WEIGHTS),
    Fault.CORRUPT: ("arrived damaged", WEIGHTS),
}
"""What each is said to be, and the file it is about."""
pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    """A Hub that stages of this test's installation ask."""
    with LocalHub(delay_s=3 * PATIENCE_S) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.setenv("HF_HUB_OFFLINE", "0")
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield running


@pytest.fixture
def made(hub: LocalHub, settings: Any, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Installation:
    """A prepared installation on the embedded broker whose inspections are real; its worker and dispatcher run."""
    monkeypatch.setenv("SPYRE_FACTORY_CHILD_MODULE", str(CHILD))
    get_settings.cache_clear()
    embedded: Installation = request.getfixturevalue("embedded")
    embedded.start("worker")
    embedded.start("dispatcher")
    return embedded


def serve(hub: LocalHub, name: str) -> HubModel:
    """A small model with weights of its own."""
    files: dict[str, Path | bytes] = {"config.json": config_of(name), "vocab.txt": b"one\n", WEIGHTS: weights_of(2000)}
    model = HubModel(name, {"main": files})
    hub.add(model)
    return model


def config_of(name: str) -> bytes:
    return json.dumps({**CONFIG, "name": name}).encode()


def pinned(model: HubModel, rank: int) -> CatalogueEntry:
    """The row of a model at the commit its main has now."""
    return listed(model.model_id, rank, revision=model.commit("main"))


def inspections(work: Work) -> dict[str, Run]:
    """Model to its inspection, as it is now."""
    with reading() as session:
        runs = [run for run, _ in sweeps.sweep_runs(session, work.sweep) if run.stage == "inspect"]
        return {session.get_one(Checkpoint, run.checkpoint_id).model.name: run for run in runs}


def refused_once(
    work: Work, hub: LocalHub, models: list[HubModel], then: Callable[[HubModel], object] = id
) -> dict[str, Run]:
    """Model to its inspection after its first refusal; then `then` is done and the Hub behaves towards it."""
    refused: dict[str, Run] = {}

    def all_were() -> bool:
        now = inspections(work)
        for model in models:
            if model.model_id not in refused and now[model.model_id].attempts:
                refused[model.model_id] = now[model.model_id]
                then(model)
                hub.behave(model.model_id)
        return len(refused) == len(models)

    work.until(all_were)
    return refused


def test_what_is_the_hubs_fault_is_tried_again_and_counts_against_no_model(hub: LocalHub, made: Installation) -> None:
    models = {fault: serve(hub, f"a/stock-{fault}") for fault in FAULTS}
    ever = serve(hub, "a/ever-busy")
    for fault, (_, file) in FAULTS.items():
        hub.misbehave(fault, models[fault].model_id, file=file)
    hub.misbehave(Fault.BUSY, ever.model_id)
    rows = [pinned(model, rank) for rank, model in enumerate([*models.values(), ever], start=1)]
    work = Work.over(rows, weights="hub")
    refused = refused_once(work, hub, list(models.values()))
    for fault, (said, _) in FAULTS.items():
        run = refused[models[fault].model_id]
        assert (run.outcome, said in run.reason) == (None, True), (fault, run.reason)
    work.ends_well()
    assert work.outcomes()[ever.model_id] == "infra", "given up for now, and no verdict"
    assert inspections(work)[ever.model_id].attempts == 3
    assert all(run.kind is None for run in work.runs())
    for model in models.values():
        assert content_of(inspections(work)[model.model_id]) == weights_of(2000)


def content_of(run: Run) -> bytes:
    """The weights of the checkpoint that an inspection found."""
    return (Path(run.evidence[CHECKPOINT_DIR]) / WEIGHTS).read_bytes()


def test_a_checkpoint_is_of_one_commit_whatever_its_branch_does(hub: LocalHub, made: Installation) -> None:
    kept, newest, gone = (serve(hub, f"a/{name}") for name in ("stock-pinned", "stock-newest", "gone"))
    for model in (kept, newest):
        hub.misbehave(Fault.TRUNCATED, model.model_id, file=WEIGHTS)
    rows = [pinned(kept, 1), listed(newest.model_id, 2), pinned(gone, 3)]
    hub.add(HubModel(gone.model_id, {"main": {**gone.refs["main"], WEIGHTS: weights_of(1999)}}))
    work = Work.over(rows, weights="hub")
    refused_once(work, hub, [kept, newest], lambda model: hub.add(model.pushed({WEIGHTS: weights_of(2001)})))
    work.ends_well()
    found = inspections(work)
    assert content_of(found[kept.model_id]) == weights_of(2000), "begun before the push, ended after it"
    assert content_of(found[newest.model_id]) == weights_of(2001), "nothing of what was begun"
    assert (found[gone.model_id].outcome, found[gone.model_id].kind) == ("unknown", None)
    assert "has no such revision" in found[gone.model_id].reason
