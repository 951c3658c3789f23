"""What a list of models is narrowed to and how it is ordered: the same for pages, programs, counts and exports.

Conditions and orders are over `Model`, its newest `Checkpoint`, that one's `CheckpointStatus` on the profile and its
`Adapter`, as `api.model_list` joins them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal, NamedTuple

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    ScalarSelect,
    Select,
    SQLColumnExpression,
    and_,
    bindparam,
    case,
    exists,
    func,
    or_,
    select,
)
from sqlalchemy.orm import InstrumentedAttribute

from api.cursors import Cursor, decode
from pipeline.releases.models import Adapter
from pipeline.review.models import CandidateCheckpoint, CandidateRow, CandidateState
from pipeline.sweeps.models import CatalogueEntry, Checkpoint, CheckpointStatus, Model
from pipeline.work.models import FailureRow, Outcome

NOT_RUN, WAITING = "not_run", "waiting"
OUTCOMES = (*(outcome.value for outcome in Outcome), NOT_RUN, WAITING)
"""What a list can be narrowed to. Left-out models are among the failed ones, as those that wait for review are."""
PROFILE: BindParameter[str] = bindparam("profile")
TODAY: BindParameter[str] = bindparam("today")
"""The profile a list is about, and the digest of its environment: every statement of the list is run with both."""
Sort = Literal["downloads", "name", "rank", "status", "family", "adapter", "weights", "verified"]


class Wanted(NamedTuple):
    """What a list of models is narrowed to, and its order; an empty field narrows nothing."""

    search: str = ""
    outcome: str = ""
    family: str = ""
    op: str = ""
    kind: str = ""
    adapter: int = 0
    weights: str = ""
    supported: bool | None = None
    stale: bool = False
    sort: Sort = "downloads"
    reverse: bool = False

    @property
    def order(self) -> str:
        """The name of the order, which cursors carry."""
        return f"{self.sort} reversed" if self.reverse else self.sort


class Order(NamedTuple):
    """A column to sort by: the type of its values, whether it falls (unless reversed), whether rows may lack one."""

    column: ColumnElement[Any] | InstrumentedAttribute[Any]
    kind: type
    falls: bool = False
    nullable: bool = True


def newest(table: Any) -> ScalarSelect[Any]:
    """The number of the model's newest row of the table: one look into an index per model."""
    return select(func.max(table.id)).where(table.model_id == Model.id).correlate(Model).scalar_subquery()


def dropped_kind() -> ScalarSelect[Any]:
    """Why the newest listing left the model out; NULL if it did not."""
    query = select(CatalogueEntry.dropped_kind).where(CatalogueEntry.id == newest(CatalogueEntry))
    return query.correlate(Model).scalar_subquery()


_STEPS = (Outcome.PASSED, Outcome.FAILED, Outcome.UNKNOWN, Outcome.INFRA)
_STATUS = case(
    {outcome.value: place for place, outcome in enumerate(_STEPS)}, value=CheckpointStatus.outcome, else_=len(_STEPS)
)
ORDERS: dict[Sort, Order] = {
    "downloads": Order(Model.downloads, int, falls=True, nullable=False),
    "name": Order(Model.name, str, nullable=False),
    "rank": Order(Model.rank, int),
    "status": Order(_STATUS, int, nullable=False),
    "family": Order(Checkpoint.family, str),
    "adapter": Order(Adapter.name, str),
    "weights": Order(CheckpointStatus.weights, str),
    "verified": Order(CheckpointStatus.updated_at, datetime, falls=True),
}
"""Rows without a value come last, whichever way the list is sorted; equal values are in the order of ids."""


def waiting_checkpoints(profile: str | BindParameter[str] = PROFILE) -> Select[int]:
    """Checkpoints for which a candidate waits for review on the profile."""
    query = select(CandidateCheckpoint.checkpoint_id).join(CandidateRow)
    return query.where(CandidateRow.state == CandidateState.WAITING, CandidateRow.profile == profile)


def waits() -> ColumnElement[bool]:
    """The model fails and a candidate waits for it."""
    return and_(CheckpointStatus.outcome == Outcome.FAILED, CheckpointStatus.checkpoint_id.in_(waiting_checkpoints()))


def outcome_of_model() -> ColumnElement[str]:
    """The outcome of its status; without one `failed` if it was left out, else `not_run`."""
    return func.coalesce(
        CheckpointStatus.outcome, case((dropped_kind().is_not(None), Outcome.FAILED.value), else_=NOT_RUN)
    )


def _having(outcome: str) -> ColumnElement[bool]:
    if outcome == WAITING:
        return waits()
    has_it = CheckpointStatus.outcome == outcome
    without = CheckpointStatus.outcome.is_(None)
    # not `outcome_of_model() == outcome`: of an expression a planner has no statistics, and reads every model
    if outcome == Outcome.FAILED:
        return or_(has_it, and_(without, dropped_kind().is_not(None)))
    return and_(without, dropped_kind().is_(None)) if outcome == NOT_RUN else has_it


FREE_FIELDS = ("search", "family", "kind", "op", "adapter")
"""Filters whose values are without number: a statement names them by `bindparam` and is the same for every value."""


def shape_of(wanted: Wanted) -> Wanted:
    """What decides the statement: all of it, but of the free fields only which are set."""
    marks: dict[str, Any] = {name: 1 if name == "adapter" else "set" for name in FREE_FIELDS if getattr(wanted, name)}
    return wanted._replace(**marks)


def values_of(wanted: Wanted) -> dict[str, Any]:
    """The values of the free fields that are set, for the statement of its shape."""
    found = {name: getattr(wanted, name) for name in FREE_FIELDS if getattr(wanted, name)}
    return {**found, "search": f"%{_escaped(wanted.search)}%"} if wanted.search else found


def _escaped(text: str) -> str:
    return text.replace("/", "//").replace("%", "/%").replace("_", "/_")


def conditions(wanted: Wanted) -> Iterator[ColumnElement[bool]]:
    """The conditions of the fields that are set; the statement is run with `values_of`."""
    op, search = bindparam("op", type_=FailureRow.op.type), bindparam("search", type_=Model.name.type)
    failing = exists().where(FailureRow.run_id == CheckpointStatus.run_id, FailureRow.op == op)
    found: dict[str, ColumnElement[bool]] = {
        "search": Model.name.ilike(search, escape="/"),
        "family": Checkpoint.family == bindparam("family", type_=Checkpoint.family.type),
        "op": and_(CheckpointStatus.outcome != Outcome.PASSED, failing.correlate(CheckpointStatus)),
        "kind": CheckpointStatus.kind == bindparam("kind", type_=CheckpointStatus.kind.type),
        "adapter": CheckpointStatus.adapter_id == bindparam("adapter", type_=CheckpointStatus.adapter_id.type),
        "weights": CheckpointStatus.weights == wanted.weights,
        "stale": CheckpointStatus.environment != TODAY,
    }
    yield from (condition for name, condition in found.items() if getattr(wanted, name))
    if wanted.outcome:
        yield _having(wanted.outcome)
    if wanted.supported is not None:
        yield func.coalesce(CheckpointStatus.supported, False) == wanted.supported


# --- order
def order_by(wanted: Wanted) -> list[SQLColumnExpression[Any]]:
    """What the list is sorted by."""
    order = ORDERS[wanted.sort]
    column = order.column.desc() if order.falls != wanted.reverse else order.column.asc()
    return [*([order.column.is_(None)] if order.nullable else []), column, Model.id]


def follows(wanted: Wanted, *, has_value: bool) -> ColumnElement[bool]:
    """What comes after the row that `bindparam`s value and id name; `has_value` tells a value from a missing one."""
    order = ORDERS[wanted.sort]
    number: BindParameter[int] = bindparam("id")
    if not has_value:
        return and_(order.column.is_(None), Model.id > number)
    value = bindparam("value", type_=order.column.type)
    beyond = order.column < value if order.falls != wanted.reverse else order.column > value
    later = or_(beyond, and_(order.column == value, Model.id > number))
    return or_(later, order.column.is_(None)) if order.nullable else later


def cursor_of(text: str, wanted: Wanted) -> Cursor:
    """The cursor in `text`. Raises `BadCursor` if this list in this order did not hand it out."""
    order = ORDERS[wanted.sort]
    return decode(text, (wanted.order,), order.kind, nullable=order.nullable)
