"""Models of a sweep and of two sweeps side by side, in pages by cursor: what each is, is counted by the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Row, Select, String, and_, case, cast, func, literal, or_, select, union_all
from sqlalchemy.orm import Session

from api.cursors import Cursor
from api.standing import entries_of_sweep, speaking_runs
from pipeline.sweeps.comparison import CHANGES
from pipeline.sweeps.models import CatalogueEntry, Model, Sweep
from pipeline.sweeps.repository import checkpoints_by_id
from pipeline.sweeps.service import rows_of_entries
from pipeline.work.models import Outcome

POSITION = "position"


def sweep_page(session: Session, sweep: Sweep, after: Cursor | None, limit: int) -> list[tuple[int, dict[str, Any]]]:
    """At most `limit` models of a sweep after the cursor: (place, row as the command `sweep` prints it)."""
    entries = entries_of_sweep(sweep)
    query = select(entries).where(entries.c.position > after.value) if after else select(entries)
    found = session.execute(query.order_by(entries.c.position).limit(limit)).all()
    rows = _rows(session, sweep, found)
    return [(row.position, rows[row.model_id]) for row in found]


def _rows(session: Session, sweep: Sweep, found: Sequence[Row[Any]]) -> dict[int, dict[str, Any]]:
    """Model to its row in the sweep's report, for these rows of `entries_of_sweep`."""
    numbers = [row.id for row in found]
    known = {entry.id: entry for entry in session.scalars(select(CatalogueEntry).where(CatalogueEntry.id.in_(numbers)))}
    executed = {row.checkpoint_id: row.speaker for row in found if row.speaker is not None}
    speakers = {speaker.id: speaker for speaker in checkpoints_by_id(session, set(executed.values()))}
    speaks = {number: speakers[speaker] for number, speaker in executed.items()}
    rows = rows_of_entries(session, sweep, [known[number] for number in numbers], speaks)
    return {row.model_id: told for row, told in zip(found, rows, strict=True)}


class Change(NamedTuple):
    """A model that differs between two sweeps or fails in both: its number, outcomes, downloads, kind of change."""

    model_id: int
    model: str
    downloads: int
    change: str
    first: str | None
    second: str | None


class Compared(NamedTuple):
    """How many models changed how, and how many pass in both."""

    counts: dict[str, int]
    passing_in_both: int


def compare_counts(session: Session, first: Sweep, second: Sweep) -> Compared:
    """The counts of `pipeline.sweeps.comparison.compare_sweeps`, without reading a model."""
    both = _both(first, second).subquery()
    found: dict[str | None, int] = dict(
        session.execute(select(both.c.change, func.count()).group_by(both.c.change)).all()
    )
    return Compared({change: found.get(change, 0) for change in CHANGES}, found.get(None, 0))


def compare_page(
    session: Session, first: Sweep, second: Sweep, only: str | None, after: Cursor | None, limit: int
) -> list[Change]:
    """At most `limit` changes after the cursor: in the order of `CHANGES`, most downloads first."""
    both = _both(first, second).subquery()
    place = case({change: n for n, change in enumerate(CHANGES)}, value=both.c.change)
    query = select(both.c.model_id, Model.name, both.c.downloads, both.c.change, both.c.first, both.c.second)
    query = query.join(Model, Model.id == both.c.model_id).where(both.c.change.is_not(None))
    query = query.where(both.c.change == only) if only else query
    if after is not None:
        same = or_(both.c.downloads < after.value, and_(both.c.downloads == after.value, both.c.model_id > after.id))
        query = query.where(or_(place > CHANGES.index(after.order), and_(both.c.change == after.order, same)))
    rows = session.execute(query.order_by(place, both.c.downloads.desc(), both.c.model_id).limit(limit))
    return [Change(*row) for row in rows]


def reasons_of(session: Session, first: Sweep, second: Sweep, changes: Sequence[Change]) -> dict[int, str]:
    """Model number to why it stands where it stands: in the second sweep, or in the first if it is only there."""
    found: dict[int, str] = {}
    for sweep in (first, second):
        entries = entries_of_sweep(sweep)
        query = select(entries).where(entries.c.model_id.in_([change.model_id for change in changes]))
        rows = _rows(session, sweep, session.execute(query).all())
        found |= {model_id: row["reason"] for model_id, row in rows.items()}
    return found


def _both(first: Sweep, second: Sweep) -> Select[Any]:
    """Every model of either sweep with its outcome in each; `change` is NULL for one that passes in both.

    All rows of both sweeps are grouped by model: outer joins would look at every pair of rows on SQLite.
    """
    rows = union_all(*_told(first, 1), *_told(second, 2)).subquery("rows")

    def largest(place: int, column: ColumnElement[Any]) -> ColumnElement[Any]:
        return func.max(case((rows.c.place == place, column), else_=None))

    def outcome(place: int) -> ColumnElement[Any]:
        """What a run said, else what an entry without one is."""
        return func.coalesce(largest(place, rows.c.outcome), largest(place, rows.c.untold))

    downloads = func.coalesce(largest(2, rows.c.downloads), largest(1, rows.c.downloads)).label("downloads")
    query = select(rows.c.model_id, downloads, outcome(1).label("first"), outcome(2).label("second"))
    grouped = query.group_by(rows.c.model_id).subquery("grouped")
    return select(grouped, _change(grouped.c.first, grouped.c.second))


def _told(sweep: Sweep, place: int) -> tuple[Select[Any], Select[Any]]:
    """The entries of a sweep, each with what it is if no run speaks for it; and those that one speaks for."""
    entries, speaking = entries_of_sweep(sweep), speaking_runs(sweep)
    untold = case((entries.c.dropped_kind.is_not(None), Outcome.FAILED.value), else_=Outcome.UNKNOWN.value)
    columns = [literal(place).label("place"), entries.c.model_id, entries.c.downloads]
    every = select(*columns, untold.label("untold"), cast(None, String).label("outcome"))
    told = select(*columns, cast(None, String).label("untold"), speaking.c.outcome.label("outcome"))
    speaks = and_(speaking.c.checkpoint_id == entries.c.speaker, speaking.c.place == 1)
    return every, told.select_from(speaking).join(entries, speaks)


def _change(first: ColumnElement[str | None], second: ColumnElement[str | None]) -> ColumnElement[str | None]:
    """The words of `pipeline.sweeps.comparison.CHANGES`."""
    passed, failed = Outcome.PASSED.value, Outcome.FAILED.value
    cases = (
        (first.is_(None), "entered"),
        (second.is_(None), "left"),
        (or_(first.not_in((passed, failed)), second.not_in((passed, failed))), "undecided"),
        (and_(first == passed, second == failed), "new"),
        (and_(first == failed, second == failed), "persisting"),
        (and_(first == failed, second == passed), "fixed"),
    )
    return case(*cases, else_=None).label("change")
