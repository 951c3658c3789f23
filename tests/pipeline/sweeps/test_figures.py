"""Coverage reads statuses alone: what they carry of their model follows listings, newer checkpoints and groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlalchemy import func, select

from pipeline.catalogue.entry import CatalogueEntry
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.sweeps.catalogue import store_snapshot
from pipeline.sweeps.coverage import coverage
from pipeline.sweeps.models import Checkpoint, CheckpointStatus, Model
from pipeline.sweeps.schemas import SweepOptions
from pipeline.sweeps.service import start_sweep

PROFILE = "profile-2026-08"
BERT = {"model_type": "bert", "hidden_size": 64, "num_attention_heads": 2, "hidden_act": "gelu", "vocab_size": 100}
Entry = Callable[..., CatalogueEntry]
Drain = Callable[[], list[int]]


def swept(entries: list[CatalogueEntry], weights: Any = "synthetic") -> None:
    with unit_of_work() as session:
        start_sweep(session, "hub", entries, SweepOptions(PROFILE, weights=weights))


def figures() -> dict[str, Any]:
    with reading() as session:
        return coverage(session, PROFILE)


def by_joining() -> tuple[int, int]:
    """Passing models and their downloads, counted the long way: newest checkpoint of each model, then its status."""
    newest = select(func.max(Checkpoint.id)).group_by(Checkpoint.model_id)
    query = select(func.count(), func.coalesce(func.sum(Model.downloads), 0)).select_from(CheckpointStatus)
    query = query.join(Checkpoint, Checkpoint.id == CheckpointStatus.checkpoint_id).join(Model)
    query = query.where(CheckpointStatus.outcome == "passed", Checkpoint.id.in_(newest))
    with reading() as session:
        count, downloads = session.execute(query).one()
    return count, downloads


def both(found: dict[str, Any]) -> tuple[int, int]:
    return found["passing_synthetic"], found["by_downloads"]["passing_synthetic"]


def test_a_group_s_statuses_carry_their_own_models_downloads(database: str, entry: Entry, drain: Drain) -> None:
    swept([entry(f"a/stock-{n}", n, config=BERT, downloads=10**n) for n in (1, 2, 3)])
    drain()
    assert both(figures()) == by_joining() == (3, 1110)


def test_a_new_listing_changes_the_downloads_of_statuses(database: str, entry: Entry, drain: Drain) -> None:
    swept([entry("a/stock-one", 1, downloads=10)])
    drain()
    with unit_of_work() as session:
        store_snapshot(session, "hub", [entry("a/stock-one", 1, downloads=77)])
    assert both(figures()) == by_joining() == (1, 77)


def test_a_newer_checkpoint_takes_the_older_one_out_of_the_count(database: str, entry: Entry, drain: Drain) -> None:
    older = entry("a/stock-one", 1, downloads=10, revision="1" * 40)
    newer = replace(older, revision="2" * 40, config={**older.config, "hidden_size": 128})
    swept([older])
    drain()
    with unit_of_work() as session:
        store_snapshot(session, "hub", [newer])
    assert both(figures()) == by_joining() == (0, 0), "another structure has no verdict yet"
    swept([newer])
    drain()
    assert both(figures()) == by_joining() == (1, 10)


def test_a_newer_checkpoint_of_the_same_structure_stays_in_the_count(database: str, entry: Entry, drain: Drain) -> None:
    older = entry("a/stock-one", 1, downloads=10, revision="1" * 40)
    swept([older])
    drain()
    with unit_of_work() as session:
        store_snapshot(session, "hub", [replace(older, revision="2" * 40)])
    assert both(figures()) == by_joining() == (1, 10)
