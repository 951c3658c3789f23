"""A refresh stores what entered, left and moved, and a model that is new is looked at before all others."""

from __future__ import annotations

from collections.abc import Callable

from pipeline.catalogue.entry import CatalogueEntry
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.sweeps.catalogue import store_snapshot
from pipeline.sweeps.changes import count_changes, entered_with
from pipeline.sweeps.models import CatalogueChange, Model
from pipeline.sweeps.schemas import SweepOptions
from pipeline.sweeps.service import start_sweep
from pipeline.work.models import Run

Entry = Callable[..., CatalogueEntry]


def stored(entries: list[CatalogueEntry], source: str = "hub") -> int:
    with unit_of_work() as session:
        return store_snapshot(session, source, entries).id


def test_a_refresh_knows_what_entered_left_and_moved(database: str, entry: Entry) -> None:
    first = stored([entry("a/stays", 1), entry("a/sinks", 2), entry("a/goes", 3)])
    second = stored([entry("a/stays", 1), entry("a/new", 2), entry("a/sinks", 3)])
    with reading() as session:
        assert count_changes(session, first) == {"entered": 0, "left": 0, "moved": 0}
        assert count_changes(session, second) == {"entered": 1, "left": 1, "moved": 1}
        names = dict(session.query(Model.id, Model.name).all())
        found = {names[row.model_id]: (row.change, row.rank_before, row.rank_after) for row in _changes(session)}
    assert found == {"a/new": ("entered", None, 2), "a/goes": ("left", 3, None), "a/sinks": ("moved", 2, 3)}


def _changes(session: object) -> list[CatalogueChange]:
    return list(session.query(CatalogueChange))  # type: ignore[attr-defined]


def test_listings_of_other_sources_are_not_compared(database: str, entry: Entry) -> None:
    stored([entry("a/x", 1)], "starter")
    second = stored([entry("a/y", 1)], "hub")
    with reading() as session:
        assert entered_with(session, second) == set()


def test_a_new_model_is_queued_before_all_others(database: str, entry: Entry) -> None:
    stored([entry("a/old", 1, downloads=10**9)])
    listed = [entry("a/old", 1, downloads=10**9), entry("a/new", 2, downloads=1)]
    with unit_of_work() as session:
        start_sweep(session, "hub", listed, SweepOptions("profile-2026-08"))
    with reading() as session:
        first = session.query(Run).order_by(Run.priority.desc()).first()
        assert first is not None
        assert first.checkpoint_id == session.query(Model).filter_by(name="a/new").one().checkpoints[0].id
