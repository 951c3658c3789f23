"""The list of models, for pages, programs and exports: one statement that reads columns, no rows as objects; by cursor.

The keys of an item are those of `api.presentation.model_item`. A page of a thousand lists costs as much as one of ten:
models are read in the order of an index, and what belongs to a model is looked up for those of the page only.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

from pydantic_core import to_json
from sqlalchemy import Label, Row, ScalarSelect, Select, bindparam, func, select
from sqlalchemy.orm import Session

from api.cursors import Cursor
from api.model_filter import (
    NOT_RUN,
    ORDERS,
    OUTCOMES,
    PROFILE,
    WAITING,
    Wanted,
    conditions,
    follows,
    newest,
    order_by,
    outcome_of_model,
    shape_of,
    values_of,
    waits,
)
from api.pages.labels import model_url
from pipeline.database.prepared import Prepared
from pipeline.database.unit_of_work import looking
from pipeline.releases.models import Adapter
from pipeline.review.models import CandidateCheckpoint, CandidateRow, CandidateState
from pipeline.sweeps.models import CatalogueEntry, Checkpoint, CheckpointStatus, Model
from pipeline.work.environment import environment_digest
from pipeline.work.models import Outcome

STATUS = ("outcome", "reason", "kind", "stage", "supported", "adapter_id", "scripted", "weights", "tier", "depth",
          "fingerprint", "updated_at", "environment", "stock_causes", "stock_reason", "derived_from")  # fmt: skip
KEYS = ("model", "rank", "downloads", "revision", "outcome", "reason", "kind", "stage", "supported", "adapter",
        "adapter_id", "scripted", "weights", "tier", "depth", "fingerprint", "stale", "waiting_candidate",
        "updated_at", "page")  # fmt: skip
EXPORT_BATCH = 1_000
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""What spreadsheets run: text that begins so is exported with a quote before it."""


def _waiting() -> ScalarSelect[Any]:
    query = select(func.max(CandidateRow.id)).join(
        CandidateCheckpoint, CandidateCheckpoint.candidate_id == CandidateRow.id
    )
    query = query.where(CandidateRow.state == CandidateState.WAITING, CandidateRow.profile == CheckpointStatus.profile)
    mine = CandidateCheckpoint.checkpoint_id == CheckpointStatus.checkpoint_id
    return query.where(mine, CheckpointStatus.outcome == Outcome.FAILED).correlate(CheckpointStatus).scalar_subquery()


def _select(wanted: Wanted) -> Select[Any]:
    status = [getattr(CheckpointStatus, name) for name in STATUS]
    adapter = [Adapter.name.label("adapter"), Adapter.version.label("adapter_version"), Adapter.origin]
    entry = [CatalogueEntry.dropped_kind, CatalogueEntry.dropped_reason]
    model = [Model.id, Model.name.label("model"), Model.rank, Model.downloads]
    checkpoint = [Checkpoint.revision, Checkpoint.family]
    place: Label[Any] = ORDERS[wanted.sort].column.label("place")
    waiting = _waiting().label("waiting_candidate")
    columns: list[Any] = [*model, *checkpoint, *status, *adapter, *entry, waiting, place]
    query = _joined(select(*columns)).outerjoin(Adapter, Adapter.id == CheckpointStatus.adapter_id)
    return query.outerjoin(CatalogueEntry, CatalogueEntry.id == newest(CatalogueEntry))


def _joined(query: Select[Any]) -> Select[Any]:
    """Every model with its newest checkpoint and that one's status, where it has them."""
    on_profile = (CheckpointStatus.checkpoint_id == Checkpoint.id) & (CheckpointStatus.profile == PROFILE)
    query = query.select_from(Model).outerjoin(Checkpoint, Checkpoint.id == newest(Checkpoint))
    return query.outerjoin(CheckpointStatus, on_profile)


def _statement(wanted: Wanted, after: Cursor | None) -> Select[Any]:
    query = _select(wanted).where(*conditions(wanted)).order_by(*order_by(wanted)).limit(bindparam("limit"))
    return query.where(follows(wanted, has_value=after.value is not None)) if after else query


@lru_cache(maxsize=256)
def _prepared(wanted: Wanted, continued: bool, has_value: bool) -> Prepared:
    after = Cursor(wanted.order, 0 if has_value else None, 0) if continued else None
    return Prepared(lambda: _statement(wanted, after))


def _values(profile: str, **more: Any) -> dict[str, Any]:
    return {"profile": profile, "today": environment_digest(profile), **more}


def page_of(session: Session, profile: str, wanted: Wanted, after: Cursor | None, limit: int) -> Sequence[Row[Any]]:
    """At most `limit` rows after the cursor."""
    place = {"value": after.value, "id": after.id} if after else {}
    values = _values(profile, limit=limit, **place, **values_of(wanted))
    has_value = after is not None and after.value is not None
    return _prepared(shape_of(wanted), after is not None, has_value).run(session, **values).all()


def count_outcomes(session: Session, profile: str, wanted: Wanted) -> dict[str, int]:
    """How many models the list has of each of `OUTCOMES`, all other filters applied, in one pass over the models.

    Those that wait for review are among the failed ones.
    """
    outcome = outcome_of_model().label("outcome")
    columns: list[Any] = [outcome, func.count(), func.count().filter(waits())]
    query = _joined(select(*columns))
    query = query.where(*conditions(wanted._replace(outcome=""))).group_by(outcome)
    rows = session.execute(query, _values(profile, **values_of(wanted))).all()
    found = {name: count for name, count, _ in rows}
    return {name: found.get(name, 0) for name in OUTCOMES} | {WAITING: sum(row[2] for row in rows)}


def next_cursor(rows: Sequence[Row[Any]], limit: int, wanted: Wanted) -> str | None:
    """The cursor after the first `limit` of `rows`; None if there are no more."""
    return cursor_after(rows[limit - 1], wanted).encode() if len(rows) > limit else None


def facts_of(rows: Iterable[Row[Any]], profile: str) -> Iterator[dict[str, Any]]:
    """Rows with everything that pages show; programs get the `KEYS` of it."""
    today, fields = environment_digest(profile), tuple[str, ...]()
    for row in rows:
        fields = fields or row._fields
        found = dict(zip(fields, row, strict=True))
        found["page"] = model_url(found["model"])
        found["stale"] = found["outcome"] is not None and found["environment"] != today
        if found["outcome"] is None:
            found |= _without_status(found)
        elif found["adapter"] is not None:
            mark = ", scripted" if found["scripted"] else ""
            found["adapter"] = f"{found['adapter']} v{found['adapter_version']} ({found['origin']}{mark})"
        yield found


def items_of(rows: Iterable[Row[Any]], profile: str) -> Iterator[dict[str, Any]]:
    """Rows as programs read them."""
    return (dict(zip(KEYS, _told(found), strict=True)) for found in facts_of(rows, profile))


_told = itemgetter(*KEYS)


def _without_status(found: dict[str, Any]) -> dict[str, Any]:
    """What the catalogue says of a model that has no verdict here."""
    outcome = Outcome.FAILED.value if found["dropped_kind"] else NOT_RUN
    told = {"outcome": outcome, "kind": found["dropped_kind"], "reason": found["dropped_reason"] or ""}
    return {**told, "supported": False, "scripted": False, "revision": None}


def cursor_after(row: Row[Any], wanted: Wanted) -> Cursor:
    """The cursor of the page that begins after this row."""
    return Cursor(wanted.order, row.place, row.id)


def every_item(profile: str, wanted: Wanted) -> Iterator[dict[str, Any]]:
    """All items the filter lets through, read in batches: a slow reader keeps no transaction open."""
    after: Cursor | None = None
    while rows := _batch(profile, wanted, after):
        yield from items_of(rows, profile)
        after = cursor_after(rows[-1], wanted)


def _batch(profile: str, wanted: Wanted, after: Cursor | None) -> Sequence[Row[Any]]:
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
