"""What a refresh of a catalogue changed: models that entered, left or moved since the last listing of its source."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Integer, Select, cast, func, insert, literal, null, select
from sqlalchemy.orm import Session, aliased

from pipeline.sweeps.models import CatalogueChange, CatalogueEntry, CatalogueSnapshot, ChangeKind


def store_changes(session: Session, snapshot: CatalogueSnapshot) -> None:
    """Compare a new snapshot with the one before it of the same source; the first of a source changes nothing."""
    before = _before(session, snapshot)
    if before is None:
        return
    columns = ["snapshot_id", "model_id", "change", "rank_before", "rank_after"]
    for query in (
        _only_in(snapshot.id, before, ChangeKind.ENTERED, snapshot.id),
        _only_in(before, snapshot.id, ChangeKind.LEFT, snapshot.id),
        _moved(before, snapshot.id),
    ):
        session.execute(insert(CatalogueChange).from_select(columns, query))


def count_changes(session: Session, snapshot_id: int) -> dict[str, int]:
    """How many models entered, left and moved with a snapshot."""
    query = select(CatalogueChange.change, func.count()).where(CatalogueChange.snapshot_id == snapshot_id)
    found = {row[0]: row[1] for row in session.execute(query.group_by(CatalogueChange.change))}
    return {str(kind): found.get(kind, 0) for kind in ChangeKind}


def entered_with(session: Session, snapshot_id: int) -> set[int]:
    """The models that a snapshot lists and the one before it of the same source did not."""
    query = select(CatalogueChange.model_id).where(CatalogueChange.snapshot_id == snapshot_id)
    return set(session.scalars(query.where(CatalogueChange.change == ChangeKind.ENTERED)))


def _before(session: Session, snapshot: CatalogueSnapshot) -> int | None:
    older = (CatalogueSnapshot.source == snapshot.source) & (CatalogueSnapshot.id < snapshot.id)
    return session.scalar(select(func.max(CatalogueSnapshot.id)).where(older))


def _only_in(snapshot: int, other: int, change: ChangeKind, noted_at: int) -> Select[*tuple[Any, ...]]:
    listed = select(CatalogueEntry.model_id).where(CatalogueEntry.snapshot_id == other)
    nothing: ColumnElement[int] = cast(null(), Integer)
    ranks = (nothing, CatalogueEntry.rank) if change == ChangeKind.ENTERED else (CatalogueEntry.rank, nothing)
    query = select(literal(noted_at), CatalogueEntry.model_id, literal(str(change)), *ranks)
    return query.where(CatalogueEntry.snapshot_id == snapshot, CatalogueEntry.model_id.not_in(listed))


def _moved(before: int, after: int) -> Select[*tuple[Any, ...]]:
    old, new = aliased(CatalogueEntry), aliased(CatalogueEntry)
    query = select(literal(after), new.model_id, literal(str(ChangeKind.MOVED)), old.rank, new.rank)
    query = query.join(old, (old.model_id == new.model_id) & (old.snapshot_id == before))
    return query.where(new.snapshot_id == after, old.rank != new.rank)
