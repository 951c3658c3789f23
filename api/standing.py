"""Every query of the overview: figures over all models, counted by the database, never read row by row."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Select, String, Subquery, and_, case, cast, false, func, literal, select, union_all
from sqlalchemy.orm import Session, aliased

from pipeline.releases.models import Adapter
from pipeline.review.models import (
    BudgetEntry,
    CandidateCheckpoint,
    CandidateRow,
    CandidateState,
    Trajectory,
    TrajectoryStep,
)
from pipeline.sweeps.models import (
    CatalogueEntry,
    CatalogueSnapshot,
    Checkpoint,
    CheckpointStatus,
    Model,
    Sweep,
    SweepRun,
)
from pipeline.sweeps.repository import newest_checkpoints
from pipeline.work.flow import STATUS_STAGES
from pipeline.work.models import Outcome, Run, RunState, StageName

WEEK = timedelta(days=7)
PACE = timedelta(minutes=30)
"""The time whose finished steps tell the pace of a sweep."""
SHOWN_CHANGES = 5
WEIGHTS = ("real", "synthetic")


class Point(NamedTuple):
    """How many models passed at the end of a day (UTC), with their own and with synthetic weights."""

    day: str
    real: int
    synthetic: int


class Release(NamedTuple):
    """An adapter that was released."""

    day: str
    id: int
    name: str
    version: int


class Pace(NamedTuple):
    """Steps of a sweep that ended lately, and those known that have not; `seconds` is what they take at that pace."""

    lately: int
    left: int
    seconds: float | None


class FamilyCell(NamedTuple):
    """A family on a profile: models with a verdict, those that pass, their downloads."""

    family: str
    profile: str
    total: int
    passing: int
    downloads: int


class Moved(NamedTuple):
    """A model whose place in the catalogue changed: its rank before and now, None where it was not listed."""

    name: str
    before: int | None
    now: int | None


class Changes(NamedTuple):
    """What differs between two listings: counts, and the first few of each by rank."""

    before: CatalogueSnapshot
    now: CatalogueSnapshot
    counts: dict[str, int]
    shown: dict[str, list[Moved]]


class Spent(NamedTuple):
    """Charged to a span of days. `unknown` counts entries whose cost is not known: they stand at what was reserved."""

    usd: float
    calls: int
    unknown: int


# --- coverage over time and by family
def coverage_over_time(session: Session, profile: str) -> list[Point]:
    """The end of each day on which a verdict changed, oldest first: every run that decides a status, in its order."""
    changes = _changes(profile)
    day = func.date(changes.c.finished_at)
    sums = [func.sum(changes.c[name] - func.coalesce(changes.c[f"{name}_before"], 0)) for name in WEIGHTS]
    points, real, synthetic = [], 0, 0
    for at, more_real, more_synthetic in session.execute(select(day, *sums).group_by(day).order_by(day)):
        real, synthetic = real + int(more_real), synthetic + int(more_synthetic)
        points.append(Point(str(at), real, synthetic))
    return points


def _changes(profile: str) -> Subquery:
    """Every deciding run that speaks for a model's newest checkpoint, with what the run before it said.

    A run counts for every model whose verdict is derived from its checkpoint today.
    """
    spoken_for = _spoken_for(profile)
    honest = func.coalesce(Adapter.scripted, false()).is_(False)
    passes = and_(Run.stage == StageName.EXECUTE, Run.outcome == Outcome.PASSED, honest)
    models = {name: case((and_(passes, Run.weights == name), spoken_for.c.models), else_=0) for name in WEIGHTS}
    before = {
        f"{name}_before": func.lag(column).over(partition_by=Run.checkpoint_id, order_by=(Run.finished_at, Run.id))
        for name, column in models.items()
    }
    named = [column.label(name) for name, column in {**models, **before}.items()]
    query = select(Run.finished_at, *named).join(spoken_for, spoken_for.c.id == Run.checkpoint_id)
    query = query.outerjoin(Adapter, Adapter.id == Run.adapter_id)
    done = (Run.state == RunState.DONE, Run.stage.in_(STATUS_STAGES), Run.profile == profile)
    return query.where(*done, Run.finished_at.is_not(None)).subquery()


def _spoken_for(profile: str) -> Subquery:
    """By checkpoint, how many models its runs speak for: its own if it is the newest, and those that follow it."""
    newest = newest_checkpoints()
    speaker = CheckpointStatus.derived_from
    following = (CheckpointStatus.profile == profile, CheckpointStatus.newest, speaker.is_not(None))
    own = select(newest.c.id.label("id"), literal(1).label("models"))
    rows = union_all(own, select(speaker, func.count()).where(*following).group_by(speaker)).subquery("rows")
    query = select(rows.c.id, func.sum(rows.c.models).label("models")).group_by(rows.c.id)
    return query.subquery("spoken_for")


def releases(session: Session, profile: str, limit: int = 200) -> list[Release]:
    """The newest adapters of a profile that were released here, oldest first."""
    query = select(func.date(Adapter.created_at), Adapter.id, Adapter.name, Adapter.version)
    query = query.where(Adapter.profile == profile, Adapter.origin == "service", Adapter.scripted.is_(False))
    rows = session.execute(query.order_by(Adapter.created_at.desc()).limit(limit)).all()
    return [Release(str(day), number, name, version) for day, number, name, version in reversed(rows)]


def families_by_profile(session: Session) -> list[FamilyCell]:
    """Every family on every profile, most downloaded first; what a scripted candidate makes pass does not pass."""
    newest = newest_checkpoints()
    honest = and_(CheckpointStatus.outcome == Outcome.PASSED, CheckpointStatus.scripted.is_(False))
    passing, downloads = func.sum(case((honest, 1), else_=0)), func.sum(Model.downloads)
    query = (
        select(Checkpoint.family, CheckpointStatus.profile, func.count(), passing, downloads)
        .join(newest, newest.c.id == CheckpointStatus.checkpoint_id)
        .join(Checkpoint, Checkpoint.id == newest.c.id)
        .join(Model, Model.id == newest.c.model_id)
        .where(Checkpoint.family.is_not(None))
        .group_by(Checkpoint.family, CheckpointStatus.profile)
        .order_by(downloads.desc(), Checkpoint.family)
    )
    return [FamilyCell(f, p, int(n), int(ok or 0), int(d)) for f, p, n, ok, d in session.execute(query)]


# --- a sweep
def funnel(session: Session, sweep: Sweep) -> dict[str, int]:
    """Where the models of a sweep stand: the numbers of the command `sweep`, counted by the database."""
    entries = entries_of_sweep(sweep)
    listed = session.scalar(select(func.count()).select_from(entries)) or 0
    dropped = session.scalar(select(func.count()).where(entries.c.dropped_kind.is_not(None))) or 0
    reached, outcomes = _reached(session, sweep, entries), _outcomes(session, sweep, entries)
    decided = sum(outcomes.values())

    def ended(outcome: Outcome) -> int:
        return outcomes.get((outcome, False), 0) + outcomes.get((outcome, True), 0)

    return {
        "listed": listed,
        "dropped": dropped,
        "inspected": reached.get(StageName.INSPECT, 0),
        "captured": reached.get(StageName.CAPTURE, 0),
        "executed": reached.get(StageName.EXECUTE, 0),
        "passed": ended(Outcome.PASSED),
        "waiting": outcomes.get((Outcome.FAILED, True), 0),
        "failed": outcomes.get((Outcome.FAILED, False), 0) + dropped,
        "unknown": ended(Outcome.UNKNOWN) + listed - dropped - decided,
        "infra": ended(Outcome.INFRA),
    }


def entries_of_sweep(sweep: Sweep) -> Subquery:
    """The entries a sweep is about, with the checkpoint that is executed for each (`speaker`).

    `speaker` is what `pipeline.sweeps.groups.speakers` finds; NULL for an entry that was left out.
    """
    columns = ("id", "model_id", "checkpoint_id", "position", "downloads", "dropped_kind")
    query = select(*(getattr(CatalogueEntry, name) for name in columns))
    query = query.where(CatalogueEntry.snapshot_id == sweep.snapshot_id).order_by(CatalogueEntry.position)
    first = query.limit(sweep.top).subquery("first")
    if sweep.weights_mode != "synthetic":
        return select(first, first.c.checkpoint_id.label("speaker")).subquery("entries")
    ran = select(Run.checkpoint_id).join(SweepRun, SweepRun.run_id == Run.id).where(SweepRun.sweep_id == sweep.id)
    has_run = first.c.checkpoint_id.in_(ran)
    elsewhere = _executed_elsewhere(ran, select(first.c.checkpoint_id).where(first.c.checkpoint_id.is_not(None)))
    group = func.coalesce(Checkpoint.group_key, cast(Checkpoint.id, String), "left out")
    order = (has_run.desc(), first.c.position)
    listed = func.first_value(first.c.checkpoint_id).over(partition_by=group, order_by=order)
    ran_listed = func.first_value(has_run).over(partition_by=group, order_by=order)
    other = case((ran_listed, None), else_=elsewhere.c.id)
    speaker = case((first.c.checkpoint_id.is_not(None), func.coalesce(other, listed)), else_=None)
    query = select(first, speaker.label("speaker")).outerjoin(Checkpoint, Checkpoint.id == first.c.checkpoint_id)
    return query.outerjoin(elsewhere, elsewhere.c.group_key == Checkpoint.group_key).subquery("entries")


def _executed_elsewhere(ran: Select[int], listed: Select[int | None]) -> Subquery:
    """By group key, the checkpoint that a sweep ran though it does not list it."""
    query = select(Checkpoint.group_key, func.min(Checkpoint.id).label("id")).group_by(Checkpoint.group_key)
    return query.where(Checkpoint.id.in_(ran), Checkpoint.id.not_in(listed)).subquery("elsewhere")


def _reached(session: Session, sweep: Sweep, entries: Subquery) -> dict[str, int]:
    """Stage to how many models it was done for, in a run of their own or of the one that is executed for them."""
    done = select(Run.stage, Run.checkpoint_id).join(SweepRun, SweepRun.run_id == Run.id)
    done = done.where(SweepRun.sweep_id == sweep.id, Run.state == RunState.DONE)
    ended = done.where(Run.outcome.in_((Outcome.PASSED, Outcome.FAILED))).distinct().subquery("ended")
    query = select(ended.c.stage, func.count()).join(entries, entries.c.speaker == ended.c.checkpoint_id)
    return dict(session.execute(query.group_by(ended.c.stage)).all())


def speaking_runs(sweep: Sweep) -> Subquery:
    """The run that speaks for each checkpoint: the last finished one, a run with an adapter before one without."""
    order = (Run.adapter_id.is_not(None).desc(), Run.id.desc())
    place = func.row_number().over(partition_by=Run.checkpoint_id, order_by=order).label("place")
    outcome = case(
        (and_(Run.outcome == Outcome.PASSED, Run.stage != StageName.EXECUTE), Outcome.UNKNOWN.value), else_=Run.outcome
    )
    query = select(Run.checkpoint_id, outcome.label("outcome"), place).join(SweepRun, SweepRun.run_id == Run.id)
    done = (SweepRun.sweep_id == sweep.id, Run.state == RunState.DONE, Run.stage.in_(STATUS_STAGES))
    return query.where(*done).subquery("speaking")


def _outcomes(session: Session, sweep: Sweep, entries: Subquery) -> dict[tuple[str, bool], int]:
    """(outcome, does a candidate wait for it) to how many models of the sweep."""
    speaking = speaking_runs(sweep)
    waiting = select(CandidateCheckpoint.checkpoint_id).join(CandidateRow)
    waits = speaking.c.checkpoint_id.in_(waiting.where(CandidateRow.state == CandidateState.WAITING))
    query = select(speaking.c.outcome, waits, func.count())
    query = query.join(entries, entries.c.speaker == speaking.c.checkpoint_id).where(speaking.c.place == 1)
    return {(outcome, bool(w)): n for outcome, w, n in session.execute(query.group_by(speaking.c.outcome, waits))}


def executed(session: Session, sweep: Sweep) -> int:
    """How many model executions the sweep itself caused."""
    query = select(func.count()).select_from(SweepRun).join(Run, Run.id == SweepRun.run_id)
    query = query.where(SweepRun.sweep_id == sweep.id, SweepRun.fresh, Run.state == RunState.DONE)
    return session.scalar(query.where(Run.stage.in_((StageName.EXECUTE, StageName.VERIFY)))) or 0


def pace_of(session: Session, sweep: Sweep, left: int, now: datetime) -> Pace:
    """How long the known steps that are left take, if they go on as in the last half hour."""
    since = max(now - PACE, sweep.created_at)
    query = select(func.count()).select_from(SweepRun).join(Run, Run.id == SweepRun.run_id)
    lately = session.scalar(query.where(SweepRun.sweep_id == sweep.id, Run.finished_at > since)) or 0
    return Pace(lately, left, (now - since).total_seconds() * left / lately if lately else None)


# --- the queue, the catalogue, money
def finished_since(session: Session, since: datetime) -> dict[str, int]:
    """Outcome to runs that ended after `since`."""
    query = select(Run.outcome, func.count()).where(Run.finished_at > since, Run.state == RunState.DONE)
    return {outcome: count for outcome, count in session.execute(query.group_by(Run.outcome)) if outcome}


def catalogue_changes(session: Session) -> Changes | None:
    """The newest listing against the one in force a week before it; None while there is only one."""
    listings = select(CatalogueSnapshot).where(CatalogueSnapshot.source.not_like("request %"))
    now = session.scalar(listings.order_by(CatalogueSnapshot.taken_at.desc(), CatalogueSnapshot.id.desc()).limit(1))
    if now is None:
        return None
    others = listings.where(CatalogueSnapshot.id != now.id)
    old = others.where(CatalogueSnapshot.taken_at <= now.taken_at - WEEK).order_by(CatalogueSnapshot.taken_at.desc())
    before = session.scalar(old.limit(1)) or session.scalar(others.order_by(CatalogueSnapshot.taken_at).limit(1))
    if before is None:
        return None
    queries: dict[str, Select[Any, Any, Any]] = {
        "entered": _only_in(now, before, entered=True),
        "left": _only_in(before, now, entered=False),
        "moved": _moved(before, now),
    }
    counts = {name: session.scalar(select(func.count()).select_from(q.subquery())) or 0 for name, q in queries.items()}
    shown = {
        name: [Moved(*row) for row in session.execute(query.limit(SHOWN_CHANGES))] for name, query in queries.items()
    }
    return Changes(before, now, counts, shown)


def _only_in(here: CatalogueSnapshot, there: CatalogueSnapshot, *, entered: bool) -> Select[Any]:
    other = select(CatalogueEntry.model_id).where(CatalogueEntry.snapshot_id == there.id)
    rank, nothing = CatalogueEntry.rank.label("rank"), func.nullif(0, 0).label("none")
    columns = (Model.name, nothing, rank) if entered else (Model.name, rank, nothing)
    query = select(*columns).select_from(CatalogueEntry).join(Model, Model.id == CatalogueEntry.model_id)
    query = query.where(CatalogueEntry.snapshot_id == here.id, CatalogueEntry.model_id.not_in(other))
    return query.order_by(CatalogueEntry.rank)


def _moved(before: CatalogueSnapshot, now: CatalogueSnapshot) -> Select[str, int, int]:
    old, new = aliased(CatalogueEntry), aliased(CatalogueEntry)
    query = select(Model.name, old.rank.label("old"), new.rank.label("new")).select_from(new)
    query = query.join(old, and_(old.model_id == new.model_id, old.snapshot_id == before.id))
    query = query.join(Model, Model.id == new.model_id).where(new.snapshot_id == now.id, old.rank != new.rank)
    return query.order_by(func.abs(old.rank - new.rank).desc(), new.rank)


def listing_to_verdict_s(session: Session, now: datetime) -> float | None:
    """The median seconds from a model's first listing to its first verdict, of the models listed in the last week."""
    verdict = func.min(Run.finished_at)
    newest = newest_checkpoints()
    query = select(Model.created_at, verdict).join(newest, newest.c.model_id == Model.id)
    query = query.join(Run, Run.checkpoint_id == newest.c.id).where(Model.created_at > now - WEEK)
    query = query.where(Run.outcome.in_((Outcome.PASSED, Outcome.FAILED)), Run.stage.in_(STATUS_STAGES))
    rows = session.execute(query.where(Run.finished_at.is_not(None)).group_by(Model.id, Model.created_at)).all()
    waits = [max((ended - listed).total_seconds(), 0.0) for listed, ended in rows if ended is not None]
    return statistics.median(waits) if waits else None


def spent(session: Session, days: Sequence[str] | None = None) -> Spent:
    """What the ledger was charged on these days (YYYY-MM-DD); all days if None."""
    unknown = func.count().filter(BudgetEntry.settled_usd.is_(None))
    total = func.coalesce(func.sum(func.coalesce(BudgetEntry.settled_usd, BudgetEntry.reserved_usd)), 0.0)
    query = select(total, func.count(), unknown)
    if days is not None:
        query = query.where(BudgetEntry.day.in_(days))
    usd, calls, open_ones = session.execute(query).one()
    return Spent(float(usd), calls, open_ones)


def spent_by_day(session: Session, limit: int) -> list[tuple[str, Spent]]:
    """The newest days on which anything was charged."""
    query = select(BudgetEntry.day).distinct().order_by(BudgetEntry.day.desc()).limit(limit)
    return [(day, spent(session, [day])) for day in session.scalars(query)]


def newest_trajectories(session: Session, limit: int) -> list[tuple[Trajectory, int]]:
    """The newest drafting attempts of language models, with how many steps each took."""
    steps = select(func.count()).where(TrajectoryStep.trajectory_id == Trajectory.id).scalar_subquery()
    query = select(Trajectory, steps).order_by(Trajectory.created_at.desc(), Trajectory.id).limit(limit)
    return [(trajectory, count) for trajectory, count in session.execute(query)]


def spent_on_candidate(session: Session, candidate: CandidateRow) -> Spent:
    """What the run that drafted a candidate was charged."""
    unknown = func.count().filter(BudgetEntry.settled_usd.is_(None))
    total = func.coalesce(func.sum(func.coalesce(BudgetEntry.settled_usd, BudgetEntry.reserved_usd)), 0.0)
    query = select(total, func.count(), unknown).where(BudgetEntry.run_id == candidate.draft_run_id)
    usd, calls, open_ones = session.execute(query).one()
    return Spent(float(usd), calls, open_ones)
