"""Sweeps: start one over a catalogue, know when it is done, report it in the keys of the command `sweep`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session

from pipeline.catalogue.entry import CatalogueEntry as Listed
from pipeline.database.events import emit
from pipeline.database.unit_of_work import database_now
from pipeline.review.repository import waiting_by_checkpoint
from pipeline.sweeps import repository
from pipeline.sweeps.catalogue import store_snapshot
from pipeline.sweeps.changes import entered_with
from pipeline.sweeps.groups import EXECUTED, executed_elsewhere, speakers, standing_on
from pipeline.sweeps.models import CatalogueEntry, CatalogueSnapshot, Checkpoint, Sweep, SweepState
from pipeline.sweeps.schemas import SweepOptions
from pipeline.work import flow
from pipeline.work.environment import environment_digest
from pipeline.work.models import Lane, Outcome, Run, RunState, StageName

MODEL_STAGES = frozenset({StageName.EXECUTE, StageName.VERIFY})
"""Stages that run a model; only these count as executed."""
STOCK_STAGES = frozenset({StageName.CAPTURE, StageName.EXECUTE})
BIG_PARAMETERS = 150_000_000
"""Larger models go after all others: the first verdicts should come soon."""
BIG_PENALTY = 10_000
NEW_FIRST = 1_000_000
"""A model that the catalogue lists for the first time goes before all others: its capability is known first."""


def start_sweep(session: Session, source: str, listed: Sequence[Listed], options: SweepOptions) -> Sweep:
    """Store the catalogue and queue the first stage of every model that is not dropped. Raises `EmptyCatalogue`."""
    return _start(session, store_snapshot(session, source, listed), options)


def sweep_latest(session: Session, options: SweepOptions) -> Sweep | None:
    """Start a sweep over the catalogue that was listed last; None if none was."""
    snapshot = repository.latest_snapshot(session)
    return None if snapshot is None else _start(session, snapshot, options)


def _start(session: Session, snapshot: CatalogueSnapshot, options: SweepOptions) -> Sweep:
    environment = environment_digest(options.profile)
    sweep = Sweep(
        snapshot_id=snapshot.id,
        request_id=options.request_id,
        profile=options.profile,
        weights_mode=options.weights,
        releases_mode=options.releases,
        tier=options.tier,
        top=options.top,
        environment=environment,
        created_at=database_now(session),
    )
    session.add(sweep)
    session.flush()
    queue_entries(session, sweep, options.requester)
    emit(session, "sweep.started", "sweep", sweep.id, request_id=options.request_id, models=snapshot.listed)
    close_finished(session)
    return sweep


def queue_entries(session: Session, sweep: Sweep, requester: str | None = None) -> None:
    """Queue what a sweep needs; what is there already is linked. Safe to call again."""
    entries = repository.entries_of(session, sweep.snapshot_id, sweep.top)
    standing = standing_on(session, sweep.profile)
    speaks = speakers(entries, sweep.weights_mode, standing, executed_elsewhere(session, sweep))
    entered = entered_with(session, sweep.snapshot_id)
    with flow.told_at_the_end(session):
        for speaker, followers in _followers(entries, speaks).items():
            new = any(entry.model_id in entered for entry in followers)
            flow.schedule_inspect(
                session,
                speaker,
                [sweep.id],
                sweep.environment,
                profile=sweep.profile,
                weights_mode=sweep.weights_mode,
                releases_mode=sweep.releases_mode,
                tier=sweep.tier,
                request_id=sweep.request_id,
                lane=Lane.REQUEST if requester else Lane.SWEEP,
                requester=requester,
                priority=NEW_FIRST * new - _place(followers[0].position, speaker),
                downloads=followers[0].downloads,
            )


def _followers(
    entries: Sequence[CatalogueEntry], speaks: Mapping[int, Checkpoint]
) -> dict[Checkpoint, list[CatalogueEntry]]:
    """By the checkpoint that is executed, the entries it is executed for, in their order."""
    found: dict[Checkpoint, list[CatalogueEntry]] = {}
    for entry in entries:
        if entry.checkpoint_id is not None:
            found.setdefault(speaks[entry.checkpoint_id], []).append(entry)
    return found


def _place(position: int, speaker: Checkpoint) -> int:
    parameters = speaker.facts.get("parameters") or 0
    return position + (BIG_PENALTY if parameters > BIG_PARAMETERS else 0)


def resume_sweep(session: Session, source: str, options: SweepOptions) -> Sweep | None:
    """The last unfinished sweep of this catalogue with these options, its missing runs queued again; None if none."""
    wanted = (source, options.profile, options.weights, options.releases, options.tier, options.top)
    for sweep in reversed(repository.unfinished_sweeps(session)):
        found = (sweep.snapshot.source, sweep.profile, sweep.weights_mode, sweep.releases_mode, sweep.tier, sweep.top)
        if found == wanted:
            queue_entries(session, sweep, options.requester)
            return sweep
    return None


def close_finished(session: Session) -> list[int]:
    """Mark the sweeps whose runs are all done; returns their numbers."""
    closed = []
    for sweep in repository.unfinished_sweeps(session):
        if repository.count_unfinished_runs(session, sweep.id) == 0:
            sweep.state, sweep.finished_at = SweepState.DONE, database_now(session)
            emit(session, "sweep.finished", "sweep", sweep.id, request_id=sweep.request_id)
            closed.append(sweep.id)
    session.flush()
    return closed


def is_finished(session: Session, sweep_id: int) -> bool:
    """True if every run the sweep needs has ended."""
    return repository.count_unfinished_runs(session, sweep_id) == 0


def sweep_report(session: Session, sweep_id: int) -> dict[str, Any]:
    """The sweep in the keys of the command: `models`, `funnel`, `executed`, and what else people want to see."""
    sweep = repository.get_sweep(session, sweep_id)
    runs = repository.sweep_runs(session, sweep_id)
    entries = repository.entries_of(session, sweep.snapshot_id, sweep.top)
    ran = {run.checkpoint_id: EXECUTED for run, _ in runs}
    elsewhere = repository.checkpoints_by_id(session, ran.keys() - {entry.checkpoint_id for entry in entries})
    speaks = speakers(entries, sweep.weights_mode, ran, elsewhere)
    models = _model_rows(session, sweep, entries, speaks, [run for run, _ in runs])
    return {
        "sweep": sweep.id,
        "profile": sweep.profile,
        "state": sweep.state,
        "models": models,
        "funnel": _funnel(entries, speaks, [run for run, _ in runs], models),
        "executed": sum(fresh and run.stage in MODEL_STAGES and run.state == RunState.DONE for run, fresh in runs),
    }


def rows_of_entries(
    session: Session, sweep: Sweep, entries: Sequence[CatalogueEntry], speaks: Mapping[int, Checkpoint]
) -> list[dict[str, Any]]:
    """The rows of `models` in the sweep's report for some of its entries: only the runs that speak for them are read.

    `speaks` is checkpoint to the one that is executed for it, as `groups.speakers` finds it over the whole sweep.
    """
    runs = repository.sweep_runs(session, sweep.id, sorted({speaker.id for speaker in speaks.values()}))
    return _model_rows(session, sweep, entries, speaks, [run for run, _ in runs])


def _model_rows(
    session: Session,
    sweep: Sweep,
    entries: Sequence[CatalogueEntry],
    speaks: Mapping[int, Checkpoint],
    runs: Sequence[Run],
) -> list[dict[str, Any]]:
    """One row per entry. What is said of a checkpoint is told once, also where others of its group follow it."""
    latest, waiting = _latest_by_checkpoint(runs), waiting_by_checkpoint(session)
    prints: dict[int | None, str] = {run.checkpoint_id: run.fingerprint for run in runs if run.fingerprint}
    stock = _latest_by_checkpoint([run for run in runs if run.adapter_id is None and run.stage in STOCK_STAGES])
    told: dict[int, dict[str, Any]] = {
        number: {**_told(session, run, waiting), "fingerprint": prints.get(number), "stock": _stock(stock.get(number))}
        for number, run in latest.items()
    }
    rows = []
    for entry in entries:
        speaker = speaks.get(entry.checkpoint_id) if entry.checkpoint_id else None
        said = told.get(speaker.id) if speaker else None
        derived = speaker.model.name if speaker and speaker.id != entry.checkpoint_id else None
        base = {"model": entry.model.name, "rank": entry.rank, "downloads": entry.downloads, "derived_from": derived}
        rows.append({**base, **(said or _untold(entry, sweep.tier))})
    return rows


def _latest_by_checkpoint(runs: Sequence[Run]) -> dict[int, Run]:
    """The run that speaks for each checkpoint: the last finished one; a run with an adapter before one without."""
    found: dict[int, Run] = {}
    for run in runs:
        before = found.get(run.checkpoint_id)
        counts = run.stage in flow.STATUS_STAGES and run.state == RunState.DONE
        if counts and not (before and before.adapter_id and not run.adapter_id):
            found[run.checkpoint_id] = run
    return found


def _stock(run: Run | None) -> dict[str, Any] | None:
    """What the stock model does on the device, as far as a run has said."""
    if run is None:
        return None
    kinds = [kind for kind, _ in Counter(failure.kind for failure in run.failures).most_common()]
    return {"outcome": str(run.outcome), "causes": len(run.failures), "kinds": kinds, "reason": run.reason}


def _told(session: Session, run: Run, waiting: Mapping[int, int]) -> dict[str, Any]:
    """What a run says of its checkpoint."""
    return {
        **_outcome_and_reason(run),
        "kind": run.kind,
        "adapter": adapter_label(session, run.adapter_id),
        "weights": run.weights,
        "tier": run.tier,
        "depth": run.depth,
        "causes": len(run.failures),
        "worst_token_cosine": run.measurements.get("worst_token_cosine"),
        "waiting_candidate": waiting.get(run.checkpoint_id) if run.outcome == Outcome.FAILED else None,
    }


def _untold(entry: CatalogueEntry, tier: str) -> dict[str, Any]:
    unknown = dict.fromkeys(("adapter", "weights", "depth", "fingerprint", "stock"))
    return {**unknown, "tier": tier, "kind": entry.dropped_kind, **_without_run(entry)}


def _without_run(entry: CatalogueEntry) -> dict[str, Any]:
    if entry.dropped_kind:
        return {"outcome": Outcome.FAILED.value, "reason": entry.dropped_reason or entry.dropped_kind}
    return {"outcome": Outcome.UNKNOWN.value, "reason": "not executed: its first stage has not run"}


def _outcome_and_reason(run: Run) -> dict[str, str]:
    if run.outcome == Outcome.PASSED and run.stage != StageName.EXECUTE:
        return {"outcome": Outcome.UNKNOWN.value, "reason": f"not executed: {run.stage} is the last stage that ran"}
    return {"outcome": str(run.outcome), "reason": run.reason}


def adapter_label(session: Session, adapter_id: int | None) -> str | None:
    """`name version (origin)` of an adapter, with `scripted` where it is; None for none."""
    from pipeline.releases.repository import get_adapter

    if adapter_id is None:
        return None
    adapter = get_adapter(session, adapter_id)
    mark = ", scripted" if adapter.scripted else ""
    return f"{adapter.name} v{adapter.version} ({adapter.origin}{mark})"


def _funnel(
    entries: Sequence[CatalogueEntry],
    speaks: Mapping[int, Checkpoint],
    runs: Sequence[Run],
    models: Sequence[dict[str, Any]],
) -> dict[str, int]:
    done = [run for run in runs if run.state == RunState.DONE and run.outcome in (Outcome.PASSED, Outcome.FAILED)]
    members = Counter(speaker.id for speaker in speaks.values())
    reached = {
        stage: sum(members[number] for number in {r.checkpoint_id for r in done if r.stage == stage})
        for stage in StageName
    }
    outcomes = Counter(row["outcome"] for row in models)
    waiting = sum(1 for row in models if row.get("waiting_candidate"))
    return {
        "listed": len(entries),
        "dropped": sum(entry.dropped_kind is not None for entry in entries),
        "inspected": reached[StageName.INSPECT],
        "captured": reached[StageName.CAPTURE],
        "executed": reached[StageName.EXECUTE],
        "passed": outcomes[Outcome.PASSED],
        "waiting": waiting,
        "failed": outcomes[Outcome.FAILED] - waiting,
        "unknown": outcomes[Outcome.UNKNOWN],
        "infra": outcomes[Outcome.INFRA],
    }
