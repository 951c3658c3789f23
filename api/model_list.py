"""The list of models for programs: one statement that reads columns, no rows as objects; narrowed, ordered, by cursor.

The keys of an item are those of `api.presentation.model_item`. A page of a thousand lists costs as much as one of ten:
models are read in the order of an index, and what belongs to a model is looked up for those of the page only.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from pydantic_core import to_json
from sqlalchemy import ColumnElement, Row, ScalarSelect, Select, bindparam, exists, func, select
from sqlalchemy.orm import Session

from api import repository
from api.cursors import Cursor
from api.pages.labels import model_url
from api.rest.schemas import ModelsFilter
from pipeline.database.prepared import Prepared
from pipeline.database.unit_of_work import looking
from pipeline.releases.models import Adapter
from pipeline.review.models import CandidateCheckpoint, CandidateRow, CandidateState
from pipeline.sweeps.models import CatalogueEntry, Checkpoint, CheckpointStatus, Model
from pipeline.work.environment import environment_digest
from pipeline.work.models import FailureRow, Outcome

STATUS = ("outcome", "reason", "kind", "stage", "supported", "adapter_id", "scripted", "weights", "tier", "depth",
          "fingerprint", "updated_at", "environment")  # fmt: skip
KEYS = ("model", "rank", "downloads", "revision", "outcome", "reason", "kind", "stage", "supported", "adapter",
        "adapter_id", "scripted", "weights", "tier", "depth", "fingerprint", "stale", "waiting_candidate",
        "updated_at", "page")  # fmt: skip
EXPORT_BATCH = 1_000
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""What spreadsheets run: text that begins so is exported with a quote before it."""


def _newest(table: Any) -> ScalarSelect[Any]:
    return select(func.max(table.id)).where(table.model_id == Model.id).correlate(Model).scalar_subquery()


def _waiting() -> ScalarSelect[Any]:
    query = select(func.max(CandidateRow.id)).join(
        CandidateCheckpoint, CandidateCheckpoint.candidate_id == CandidateRow.id
    )
    query = query.where(CandidateRow.state == CandidateState.WAITING, CandidateRow.profile == CheckpointStatus.profile)
    mine = CandidateCheckpoint.checkpoint_id == CheckpointStatus.checkpoint_id
    return query.where(mine, CheckpointStatus.outcome == Outcome.FAILED).correlate(CheckpointStatus).scalar_subquery()


def _select() -> Select[Any]:
    status = [getattr(CheckpointStatus, name) for name in STATUS]
    adapter = [Adapter.name.label("adapter"), Adapter.version.label("adapter_version"), Adapter.origin]
    entry = [CatalogueEntry.dropped_kind, CatalogueEntry.dropped_reason]
    model = [Model.id, Model.name.label("model"), Model.rank, Model.downloads]
    waiting = _waiting().label("waiting_candidate")
    columns: list[Any] = [*model, Checkpoint.revision, *status, *adapter, *entry, waiting]
    query = select(*columns)
    on_profile = (CheckpointStatus.checkpoint_id == Checkpoint.id) & (CheckpointStatus.profile == bindparam("profile"))
    query = query.select_from(Model).outerjoin(Checkpoint, Checkpoint.id == _newest(Checkpoint))
    query = query.outerjoin(CheckpointStatus, on_profile).outerjoin(Adapter, Adapter.id == CheckpointStatus.adapter_id)
    return query.outerjoin(CatalogueEntry, CatalogueEntry.id == _newest(CatalogueEntry))


def _conditions(wanted: ModelsFilter) -> Iterator[ColumnElement[bool]]:
    if wanted.search:
        yield Model.name.icontains(wanted.search, autoescape=True)
    if wanted.outcome:
        yield from repository.having(wanted.outcome, bindparam("profile"))
    if wanted.family:
        yield Checkpoint.family == wanted.family
    if wanted.kind:
        yield CheckpointStatus.kind == wanted.kind
    if wanted.weights:
        yield CheckpointStatus.weights == wanted.weights
    if wanted.supported is not None:
        yield func.coalesce(CheckpointStatus.supported, False) == wanted.supported
    if wanted.op:
        yield exists().where(FailureRow.run_id == CheckpointStatus.run_id, FailureRow.op == wanted.op)


FREE_FIELDS = ("search", "family", "kind", "op")
"""Filters whose values are without number: a statement with one is built anew each time."""


@lru_cache(maxsize=128)
def _prepared(outcome: Any, weights: Any, supported: bool | None, sort: Any, continued: bool) -> Prepared:
    wanted = ModelsFilter(outcome=outcome, weights=weights, supported=supported, sort=sort)
    return Prepared(lambda: _statement(wanted, continued))


def _statement(wanted: ModelsFilter, continued: bool) -> Select[Any]:
    query = _select().where(*_conditions(wanted)).order_by(*repository.ORDER[wanted.sort]).limit(bindparam("limit"))
    where = Cursor(wanted.sort, bindparam("value"), bindparam("id"))  # type: ignore[arg-type]
    return query.where(repository.follows(where)) if continued else query


def page_of(
    session: Session, profile: str, wanted: ModelsFilter, after: Cursor | None, limit: int
) -> Sequence[Row[Any]]:
    """At most `limit` rows after the cursor."""
    place = {"value": after.value, "id": after.id} if after and after.sort != "name" else {}
    place = {"value": after.value} if after and after.sort == "name" else place
    values = {"profile": profile, "limit": limit, **place}
    if any(getattr(wanted, name) for name in FREE_FIELDS):
        return session.execute(_statement(wanted, after is not None), values).all()
    how = (wanted.outcome, wanted.weights, wanted.supported, wanted.sort, after is not None)
    return _prepared(*how).run(session, **values).all()


def items_of(rows: Iterable[Row[Any]], profile: str) -> Iterator[dict[str, Any]]:
    """Rows as programs read them."""
    today = environment_digest(profile)
    for row in rows:
        found = dict(zip(row._fields, row, strict=True))
        found["page"] = model_url(found["model"])
        found["stale"] = found["outcome"] is not None and found["environment"] != today
        if found["outcome"] is None:
            found |= _without_status(found)
        elif found["adapter"] is not None:
            mark = ", scripted" if found["scripted"] else ""
            found["adapter"] = f"{found['adapter']} v{found['adapter_version']} ({found['origin']}{mark})"
        yield {key: found[key] for key in KEYS}


def _without_status(found: dict[str, Any]) -> dict[str, Any]:
    """What the catalogue says of a model that has no verdict here."""
    outcome = Outcome.FAILED.value if found["dropped_kind"] else repository.NOT_RUN
    told = {"outcome": outcome, "kind": found["dropped_kind"], "reason": found["dropped_reason"] or ""}
    return {**told, "supported": False, "scripted": False, "revision": None}


def cursor_after(row: Row[Any], sort: str) -> Cursor:
    """The cursor of the page that begins after this row."""
    return Cursor(sort, row.model if sort == "name" else row.downloads, row.id)


def every_item(profile: str, wanted: ModelsFilter) -> Iterator[dict[str, Any]]:
    """All items the filter lets through, read in batches: a slow reader keeps no transaction open."""
    after: Cursor | None = None
    while rows := _batch(profile, wanted, after):
        yield from items_of(rows, profile)
        after = cursor_after(rows[-1], wanted.sort)


def _batch(profile: str, wanted: ModelsFilter, after: Cursor | None) -> Sequence[Row[Any]]:
    with looking() as session:
        return page_of(session, profile, wanted, after, EXPORT_BATCH)


def as_jsonl(items: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """One JSON document per line."""
    for item in items:
        yield to_json(item) + b"\n"


def as_csv(items: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """A line of names, then one per item; nothing in it is a formula to a spreadsheet."""
    yield _csv_line(KEYS)
    for item in items:
        yield _csv_line([_plain(item[key]) for key in KEYS])


def _csv_line(cells: Sequence[Any]) -> bytes:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue().encode()


def _plain(value: Any) -> Any:
    is_formula = isinstance(value, str) and value.startswith(FORMULA_STARTS)
    return f"'{value}" if is_formula else value
