"""Catalogues into rows: every listed model gets one, a dropped one with its reason. Insert-or-return throughout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from pipeline.catalogue.entry import CatalogueEntry as Listed
from pipeline.catalogue.entry import entry_from_dict
from pipeline.catalogue.service import catalogue_digest
from pipeline.database.insert import insert_missing, insert_or_return
from pipeline.database.unit_of_work import database_now
from pipeline.inspection.digest import config_digest
from pipeline.releases.matching import family_of
from pipeline.sweeps.changes import store_changes
from pipeline.sweeps.errors import EmptyCatalogue
from pipeline.sweeps.groups import follow, group_key
from pipeline.sweeps.models import CatalogueEntry, CatalogueSnapshot, Checkpoint, Model
from pipeline.sweeps.repository import note_downloads, note_newest

BATCH = 1000
"""Rows per statement."""


def store_snapshot(session: Session, source: str, entries: Sequence[Listed]) -> CatalogueSnapshot:
    """The snapshot with these entries; the same listing twice is one snapshot. Raises `EmptyCatalogue`."""
    if not entries:
        raise EmptyCatalogue(f"The catalogue {source!r} lists no model.")
    key = {"digest": catalogue_digest(entries)}
    values = {
        "source": source,
        "listed": len(entries),
        "dropped": sum(entry.dropped for entry in entries),
        "taken_at": database_now(session),
    }
    found = insert_or_return(session, CatalogueSnapshot, key, values)
    snapshot: CatalogueSnapshot = found.row
    if found.created:
        listed = sorted(entries, key=lambda e: e.order)
        derived = Derived()
        for start in range(0, len(listed), BATCH):
            _store_entries(session, snapshot.id, start + 1, listed[start : start + BATCH], derived)
        store_changes(session, snapshot)
        session.expire_all()
    return snapshot


class Derived:
    """What is derived from the configurations of one listing: once for all rows that share a configuration object."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], dict[str, Any]] = {}

    def of(self, entry: Listed) -> dict[str, Any]:
        """`config_digest`, `family` and `group_key` of the entry's checkpoint. The entry must outlive this object."""
        key = (id(entry.config), entry.pooling, entry.weights_form)
        if key not in self._kept:
            self._kept[key] = {
                "config_digest": config_digest(entry.config) if entry.config else None,
                "family": family_of(entry.config) if entry.config else None,
                "group_key": group_key(entry),
            }
        return self._kept[key]


def _store_entries(session: Session, snapshot: int, first: int, listed: Sequence[Listed], derived: Derived) -> None:
    models = ensure_models(session, listed)
    checkpoints = ensure_checkpoints(session, models, [entry for entry in listed if not entry.dropped], derived)
    rows = [
        {
            "snapshot_id": snapshot,
            "model_id": models[entry.model_id],
            "checkpoint_id": checkpoints.get(entry.model_id),
            "position": position,
            "rank": entry.rank,
            "downloads": entry.downloads,
            "dropped_kind": entry.dropped_kind,
            "dropped_reason": entry.dropped_reason,
        }
        for position, entry in enumerate(listed, start=first)
    ]
    session.execute(insert(CatalogueEntry), rows)


def ensure_models(session: Session, listed: Sequence[Listed]) -> dict[str, int]:
    """The rows of these Hub ids, by name, with the rank and downloads of this listing.

    An entry that no listing ranked changes neither.
    """
    now = database_now(session)
    insert_missing(session, Model, ["name"], [{"name": e.model_id, "downloads": 0, "created_at": now} for e in listed])
    found = select(Model.name, Model.id).where(Model.name.in_([e.model_id for e in listed]))
    numbers = {row.name: row.id for row in session.execute(found)}
    ranked = [e for e in listed if e.rank]
    if ranked:
        ranks = [{"id": numbers[e.model_id], "rank": e.rank, "downloads": e.downloads} for e in ranked]
        session.execute(update(Model), ranks)
        note_downloads(session, [row["id"] for row in ranks])
    return numbers


def ensure_checkpoints(
    session: Session, models: Mapping[str, int], listed: Sequence[Listed], derived: Derived | None = None
) -> dict[str, int]:
    """The rows of these models at the entries' revisions, by name of the model.

    An unpinned entry is named by the digest of its content. What is known of a new row's group is known of it at once.
    """
    wanted = {(models[entry.model_id], entry.identity): entry for entry in listed}
    now, shared = database_now(session), derived or Derived()
    rows = [
        {**_checkpoint_row(model, revision, entry), **shared.of(entry), "created_at": now}
        for (model, revision), entry in wanted.items()
    ]
    insert_missing(session, Checkpoint, ["model_id", "revision"], rows)
    note_newest(session, [model for model, _ in wanted])
    columns = select(Checkpoint.model_id, Checkpoint.revision, Checkpoint.id)
    found = session.execute(columns.where(Checkpoint.model_id.in_([model for model, _ in wanted])))
    stored = {(model, revision): number for model, revision, number in found}
    follow(session, [stored[key] for key in wanted])
    return {entry.model_id: stored[key] for key, entry in wanted.items()}


def _checkpoint_row(model: int, revision: str, entry: Listed) -> dict[str, Any]:
    return {
        "model_id": model,
        "revision": revision,
        "config": entry.config,
        "facts": {key: value for key, value in entry.to_dict().items() if key != "config"},
    }


def entry_of(checkpoint: Checkpoint) -> Listed:
    """The catalogue row a checkpoint was made from."""
    return entry_from_dict({**checkpoint.facts, "config": checkpoint.config})
