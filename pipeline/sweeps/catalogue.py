"""Catalogues into rows: every listed model gets one, a dropped one with its reason. Insert-or-return throughout."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session

from pipeline.catalogue.entry import CatalogueEntry as Listed
from pipeline.catalogue.entry import entry_from_dict
from pipeline.catalogue.service import catalogue_digest
from pipeline.database.insert import insert_or_return
from pipeline.database.unit_of_work import database_now
from pipeline.inspection.digest import config_digest
from pipeline.releases.matching import family_of
from pipeline.sweeps.errors import EmptyCatalogue
from pipeline.sweeps.models import CatalogueEntry, CatalogueSnapshot, Checkpoint, Model


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
        for position, entry in enumerate(sorted(entries, key=lambda e: e.order), start=1):
            session.add(_entry_row(session, snapshot, position, entry))
        session.flush()
    return snapshot


def _entry_row(session: Session, snapshot: CatalogueSnapshot, position: int, entry: Listed) -> CatalogueEntry:
    model = ensure_model(session, entry)
    checkpoint = None if entry.dropped else ensure_checkpoint(session, model, entry)
    return CatalogueEntry(
        snapshot_id=snapshot.id,
        model_id=model.id,
        checkpoint_id=checkpoint.id if checkpoint else None,
        position=position,
        rank=entry.rank,
        downloads=entry.downloads,
        dropped_kind=entry.dropped_kind,
        dropped_reason=entry.dropped_reason,
    )


def ensure_model(session: Session, entry: Listed) -> Model:
    """The row of a Hub id, with the rank and downloads of this listing; an entry no listing ranked changes neither."""
    model: Model = insert_or_return(session, Model, {"name": entry.model_id}, {"created_at": database_now(session)}).row
    if entry.rank:
        model.rank, model.downloads = entry.rank, entry.downloads
    return model


def ensure_checkpoint(session: Session, model: Model, entry: Listed) -> Checkpoint:
    """The row of a model at the entry's revision; an unpinned entry is named by the digest of its content."""
    digest = config_digest(entry.config) if entry.config else None
    facts = {key: value for key, value in entry.to_dict().items() if key != "config"}
    values = {
        "config": entry.config,
        "config_digest": digest,
        "family": family_of(entry.config) if entry.config else None,
        "facts": facts,
        "created_at": database_now(session),
    }
    key = {"model_id": model.id, "revision": entry.identity}
    checkpoint: Checkpoint = insert_or_return(session, Checkpoint, key, values).row
    return checkpoint


def entry_of(checkpoint: Checkpoint) -> Listed:
    """The catalogue row a checkpoint was made from."""
    return entry_from_dict({**checkpoint.facts, "config": checkpoint.config})
