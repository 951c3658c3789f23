"""What follows a stage: the one place that knows the road of a checkpoint from inspection to the review queue.

Everything here runs in the transaction that ends the run, so a stage and what it causes are stored together or not at
all. A follower that exists already is linked, not made again; one that is done is passed through at once, which is why
a sweep with nothing changed executes no model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy.orm import Session

from agents.types import FailureKind, canonical
from pipeline.database.events import emit
from pipeline.database.facts import is_demo
from pipeline.database.insert import insert_or_return
from pipeline.database.unit_of_work import database_now
from pipeline.releases import repository as releases
from pipeline.releases.models import Adapter
from pipeline.releases.service import STOCK, matching_adapter
from pipeline.review import candidates
from pipeline.rules.repository import accepted_rules
from pipeline.settings import get_settings
from pipeline.sweeps import groups
from pipeline.sweeps import repository as sweeps
from pipeline.sweeps.models import Capability, Checkpoint, CheckpointStatus
from pipeline.work import repository
from pipeline.work.models import DiagnosisRow, Outcome, Run, RunState, StageName
from pipeline.work.repository import Lease, Lost, NewRun
from pipeline.work.results import StageResult, cut

PATCHABLE = frozenset(
    {
        FailureKind.UNSUPPORTED_OP,
        FailureKind.UNSUPPORTED_DTYPE,
        FailureKind.LAYOUT,
        FailureKind.SHAPE_LIMIT,
        FailureKind.MEMORY_LIMIT,
        FailureKind.GRAPH_BREAK,
        FailureKind.DYNAMIC_SHAPE,
        FailureKind.RUNTIME_ABORT,
        FailureKind.WRONG_VALUES,
        FailureKind.NON_FINITE,
        FailureKind.CPU_FALLBACK,
        FailureKind.UNCLASSIFIED,
    }
)
"""Kinds a patch may cure; the others are facts about the repository or the machine."""
MAX_DRAFT_ROUNDS = 3
DRAFTING_LATER = 1_000
"""A sweep gives every model its verdict before it diagnoses and drafts for any: its places are below this."""
STOCK_LATER = 5_000
"""What stock does is looked at for every model, but after what decides its verdict."""
CHECKPOINT_DIR = "checkpoint_dir"
"""Where inspection keeps the folder it found: it depends on the weights that were asked for."""
PLACE = ("lane", "requester", "priority", "downloads")
"""A run's place in the queue; its followers inherit it."""
UNTOLD = "statuses whose groups are to be told"
"""In the session's `info`, while finished runs are passed on."""
STATUS_STAGES = (StageName.INSPECT, StageName.CAPTURE, StageName.EXECUTE)


def complete(session: Session, lease: Lease, result: StageResult, versions: dict[str, Any]) -> Run:
    """End a run and make what follows it. Raises `LeaseLost` if the lease is old; then nothing is stored."""
    run = repository.finish(session, lease, result, versions)
    if run.state == RunState.DONE:
        _remember(session, run, result)
        _pass_on(session, run)
    return run


def _pass_on(session: Session, run: Run) -> None:
    ids = sweeps.sweeps_of_run(session, run.id)
    advance(session, run, ids)
    told: dict[str, Any] = {"stage": run.stage, "outcome": run.outcome, "reason": cut(run.reason, 300)}
    emit(session, "run.finished", "run", run.id, request_id=run.request_id, sweeps=ids, **told)


def recover(session: Session) -> Lost:
    """Give back what lost its lease; what is given up as `crashed` is passed on as any finished run."""
    lost = repository.recover_lost(session)
    for run_id in lost.crashed:
        _pass_on(session, session.get_one(Run, run_id))
    return lost


def advance(session: Session, run: Run, sweep_ids: Sequence[int]) -> None:
    """Pass a finished run on: its status is stored, its followers are made or linked, then its group is told."""
    with told_at_the_end(session):
        _advance(session, run, sweep_ids)


@contextmanager
def told_at_the_end(session: Session) -> Iterator[None]:
    """Groups are told once what has become of theirs, however many finished runs are passed through on the way."""
    if UNTOLD in session.info:
        yield
        return
    untold: dict[tuple[int, str], CheckpointStatus] = session.info.setdefault(UNTOLD, {})
    try:
        yield
    finally:
        del session.info[UNTOLD]
    session.flush()
    if untold:
        groups.derive(session, *untold.values())


def _advance(session: Session, run: Run, sweep_ids: Sequence[int]) -> None:
    if _is_informational(session, run):
        _note_stock(session, run)
        return
    if run.stage in STATUS_STAGES:
        _store_status(session, run)
    if run.outcome in (Outcome.PASSED, Outcome.FAILED):
        _AFTER[StageName(run.stage)](session, run, sweep_ids)
    elif run.stage == StageName.VERIFY:
        _after_verify(session, run, sweep_ids)


def _is_informational(session: Session, run: Run) -> bool:
    """True for a run of the stock model though an adapter serves it: it says what stock does and decides nothing."""
    if run.adapter_id is not None or run.stage not in (StageName.CAPTURE, StageName.EXECUTE):
        return False
    checkpoint = session.get_one(Checkpoint, run.checkpoint_id)
    return matching_adapter(session, checkpoint, run.profile, run.releases_mode) is not None


def _note_stock(session: Session, run: Run) -> None:
    status = session.get(CheckpointStatus, (run.checkpoint_id, run.profile))
    if status is not None:
        _set_stock(status, run)
        _tell_the_group_later(session, run, status)


def _set_stock(status: CheckpointStatus, run: Run) -> None:
    status.stock_causes = len(run.failures) if run.outcome == Outcome.FAILED else 0
    status.stock_reason = run.reason


def _tell_the_group_later(session: Session, run: Run, status: CheckpointStatus) -> None:
    """A status on real weights is told to nobody, though a run on synthetic ones says what stock does there."""
    rests_on = session.get_one(Run, status.run_id)
    if run.weights_mode == rests_on.weights_mode == "synthetic":
        session.info[UNTOLD][status.checkpoint_id, status.profile] = status


def schedule(session: Session, new: NewRun, sweep_ids: Sequence[int]) -> Run:
    """Make or find the run, link it to its sweeps, and pass it through if it is done already."""
    run: Run = repository.ensure_run(session, new).row
    for sweep_id in sweep_ids:
        sweeps.link_run(session, sweep_id, run)
    if run.state == RunState.DONE:
        advance(session, run, sweep_ids)
    return run


def schedule_inspect(
    session: Session, checkpoint: Checkpoint, sweep_ids: Sequence[int], environment: str, **how: Any
) -> Run:
    """The first stage of a checkpoint. `how`: the fields of `NewRun` that say how it is run and when its turn is."""
    content = (*_identity(checkpoint), how["releases_mode"])
    new = NewRun(StageName.INSPECT, checkpoint.id, environment=environment, content=content, **how)
    return schedule(session, new, sweep_ids)


def schedule_capture(
    session: Session, checkpoint: Checkpoint, like: Run, adapter: Adapter | None, ids: Sequence[int], **over: Any
) -> Run:
    """The capability stage of a checkpoint with (or without) an adapter. `over` replaces run fields."""
    return schedule(session, _like(like, StageName.CAPTURE, checkpoint, adapter, **over), ids)


def _identity(checkpoint: Checkpoint) -> tuple[Any, ...]:
    return (checkpoint.model.name, checkpoint.revision, checkpoint.config_digest)


def _like(
    run: Run, stage: StageName, checkpoint: Checkpoint, adapter: Adapter | None, *content: Any, **over: Any
) -> NewRun:
    shared = ("profile", "weights_mode", "releases_mode", "tier", "environment", "request_id", *PLACE)
    digest = adapter.digest if adapter else STOCK
    return NewRun(
        stage=stage,
        checkpoint_id=checkpoint.id,
        content=(*_identity(checkpoint), digest, *content),
        **{
            **{name: getattr(run, name) for name in shared},
            "adapter_id": adapter.id if adapter else None,
            "parent_run_id": run.id,
            **over,
        },
    )


def _adapter_of(session: Session, run: Run) -> Adapter | None:
    return releases.get_adapter(session, run.adapter_id) if run.adapter_id else None


def _patchable(run: Run) -> bool:
    return any(failure.kind in PATCHABLE for failure in run.failures)


def _refused_by_gate(run: Run) -> bool:
    """True for a model that ran to its end and whose figures the gate refused: nobody has named a cause yet."""
    return run.stage == StageName.EXECUTE and run.outcome == Outcome.FAILED and not run.failures


def _remember(session: Session, run: Run, result: StageResult) -> None:
    """Keep what a stage learned about the checkpoint itself, and its capability report for others of the same graph."""
    checkpoint = session.get_one(Checkpoint, run.checkpoint_id)
    for name in ("config", "config_digest", "family"):
        if result.extra.get(name):
            setattr(checkpoint, name, result.extra[name])
    if result.extra.get("checkpoint_dir"):
        checkpoint.local_path = result.extra["checkpoint_dir"]
        run.evidence = {**run.evidence, CHECKPOINT_DIR: result.extra["checkpoint_dir"]}
    if (
        run.stage == StageName.CAPTURE
        and checkpoint.config_digest
        and (run.outcome == Outcome.PASSED or _patchable(run))
    ):
        _cache_capability(session, run, checkpoint, result)
    if run.stage == StageName.DRAFT:
        candidates.record_candidates(session, run, result.candidates)
    session.flush()


def _cache_capability(session: Session, run: Run, checkpoint: Checkpoint, result: StageResult) -> None:
    adapter = _adapter_of(session, run)
    key = {
        "graph_key": graph_key(checkpoint),
        "adapter_digest": adapter.digest if adapter else STOCK,
        "environment": run.environment,
    }
    kept = ("outcome", "reason", "kind", "failures", "fingerprint", "measurements", "evidence", "depth")
    values = {
        "profile": run.profile,
        "fingerprint": run.fingerprint,
        "result": {name: getattr(result, name) for name in kept},
        "created_at": database_now(session),
    }
    insert_or_return(session, Capability, key, values)


def graph_key(checkpoint: Checkpoint) -> str:
    """What decides a checkpoint's operator graph: its config digest and its dtype, which the digest leaves out."""
    config = checkpoint.config or {}
    dtype = config.get("dtype") or config.get("torch_dtype")
    return hashlib.sha256(canonical([checkpoint.config_digest, dtype])).hexdigest()


def cached_capability(session: Session, run_id: int) -> dict[str, Any] | None:
    """The OUT of a capture that another checkpoint of the same graph, adapter and environment has had; else None."""
    run = session.get_one(Run, run_id)
    checkpoint = session.get_one(Checkpoint, run.checkpoint_id)
    if run.stage != StageName.CAPTURE or not checkpoint.config_digest:
        return None
    adapter = _adapter_of(session, run)
    digest = adapter.digest if adapter else STOCK
    found = sweeps.find_capability(session, graph_key(checkpoint), digest, run.environment)
    return found.result if found else None


def _store_status(session: Session, run: Run) -> None:
    adapter = _adapter_of(session, run)
    key = {"checkpoint_id": run.checkpoint_id, "profile": run.profile}
    values = {
        "run_id": run.id,
        "adapter_id": run.adapter_id,
        "stage": run.stage,
        "outcome": _status_outcome(run),
        "kind": run.kind,
        "reason": run.reason,
        "supported": _supported(run),
        "scripted": bool(adapter and adapter.scripted),
        "weights": run.weights,
        "tier": run.tier,
        "depth": run.depth,
        "fingerprint": run.fingerprint,
        "environment": run.environment,
        "updated_at": database_now(session),
        "derived_from": None,
        **sweeps.own_figures(session, run.checkpoint_id),
    }
    found = insert_or_return(session, CheckpointStatus, key, values)
    status: CheckpointStatus = found.row
    if not found.created:
        kept = status.fingerprint
        for name, value in values.items():
            setattr(status, name, value)
        status.fingerprint = run.fingerprint or kept
    if run.adapter_id is None and run.stage != StageName.INSPECT:
        _set_stock(status, run)
    _tell_the_group_later(session, run, status)


def _status_outcome(run: Run) -> str:
    """A checkpoint passes only when it was executed: until then a stage that went well says `unknown`."""
    if run.outcome == Outcome.PASSED and run.stage != StageName.EXECUTE:
        return Outcome.UNKNOWN
    return str(run.outcome)


def _supported(run: Run) -> bool:
    """What capability says with the adapter, whatever the verdict; a stock model that fails its own needs one."""
    if run.stage == StageName.EXECUTE and run.adapter_id is not None:
        return run.outcome in (Outcome.PASSED, Outcome.FAILED)
    return run.outcome == Outcome.PASSED and run.stage in (StageName.CAPTURE, StageName.EXECUTE)


def _after_inspect(session: Session, run: Run, ids: Sequence[int]) -> None:
    if run.outcome == Outcome.PASSED:
        checkpoint = session.get_one(Checkpoint, run.checkpoint_id)
        adapter = matching_adapter(session, checkpoint, run.profile, run.releases_mode)
        schedule_capture(session, checkpoint, run, adapter, ids)
        if adapter is not None:
            schedule_capture(session, checkpoint, run, None, ids, priority=run.priority - STOCK_LATER)


def _after_capture(session: Session, run: Run, ids: Sequence[int]) -> None:
    checkpoint = session.get_one(Checkpoint, run.checkpoint_id)
    if run.outcome == Outcome.PASSED:
        schedule(session, _like(run, StageName.EXECUTE, checkpoint, _adapter_of(session, run)), ids)
    else:
        _diagnose(session, run, checkpoint, ids)


def _after_execute(session: Session, run: Run, ids: Sequence[int]) -> None:
    if run.outcome == Outcome.FAILED:
        _diagnose(session, run, session.get_one(Checkpoint, run.checkpoint_id), ids)


def _diagnose(session: Session, run: Run, checkpoint: Checkpoint, ids: Sequence[int]) -> None:
    wanted = get_settings().drafters != "none"
    if wanted and (_patchable(run) or _refused_by_gate(run)):
        later = run.priority - DRAFTING_LATER
        schedule(session, _like(run, StageName.DIAGNOSE, checkpoint, _adapter_of(session, run), priority=later), ids)


def _after_diagnose(session: Session, run: Run, ids: Sequence[int]) -> None:
    if run.diagnoses:
        _draft(session, run, run, ids)


def _draft(session: Session, run: Run, diagnosed: Run, ids: Sequence[int]) -> None:
    if candidates.rounds_of(session, run) < MAX_DRAFT_ROUNDS:
        schedule_draft(session, run, diagnosed, ids)


def schedule_draft(session: Session, run: Run, diagnosed: Run, ids: Sequence[int], **over: Any) -> Run:
    """The next draft from a diagnosis, which knows what has been refused so far. `over` replaces run fields."""
    checkpoint = session.get_one(Checkpoint, run.checkpoint_id)
    refused = sorted(candidates.refused_digests(session, checkpoint.family or "", run.profile))
    digest = hashlib.sha256(canonical([_told(row.data) for row in diagnosed.diagnoses])).hexdigest()
    rules = [row.digest for row in accepted_rules(session, is_demo(session))]
    content = (digest, refused, get_settings().drafters, *rules)
    how = {"parent_run_id": diagnosed.id, "candidate_id": None, **over}
    return schedule(session, _like(run, StageName.DRAFT, checkpoint, None, *content, **how), ids)


def _told(diagnosis: dict[str, Any]) -> dict[str, Any]:
    """What a draft is made of: not the script, of which there may be none when time was short."""
    evidence = {name: value for name, value in diagnosis.get("evidence", {}).items() if name != "reproducer"}
    return {**diagnosis, "evidence": evidence}


def _after_draft(session: Session, run: Run, ids: Sequence[int]) -> None:
    for candidate in candidates.drafted_by(session, run):
        if candidates.may_submit(session, run, candidate):
            schedule_verify(session, candidate.id, run, ids)


def schedule_verify(session: Session, candidate_id: int, like: Run, ids: Sequence[int], **over: Any) -> Run:
    """The full verification of a candidate, on the checkpoint it was first drafted for. `over` replaces run fields."""
    candidate = candidates.get_candidate(session, candidate_id)
    checkpoint = session.get_one(Checkpoint, candidates.representative_of(session, candidate))
    how = {"candidate_id": candidate.id, "tier": "full", **over}
    return schedule(session, _like(like, StageName.VERIFY, checkpoint, None, candidate.digest, **how), ids)


def _after_verify(session: Session, run: Run, ids: Sequence[int]) -> None:
    """What the gate refused is drafted again; what is right and not exact enough, with forms of less error."""
    refused = candidates.take_verdict(session, run)
    again = refused or candidates.verdict_is_inexact(session, run)
    diagnosed = candidates.diagnosis_run(session, run) if again else None
    if diagnosed is not None:
        _draft(session, diagnosed, diagnosed, ids)


def _nothing(_session: Session, _run: Run, _ids: Sequence[int]) -> None:
    """What follows a replay: it says whether a verdict can be had again, and changes none."""


_AFTER: dict[StageName, Callable[[Session, Run, Sequence[int]], None]] = {
    StageName.INSPECT: _after_inspect,
    StageName.CAPTURE: _after_capture,
    StageName.EXECUTE: _after_execute,
    StageName.DIAGNOSE: _after_diagnose,
    StageName.DRAFT: _after_draft,
    StageName.VERIFY: _after_verify,
    StageName.REPLAY: _nothing,
}


def folder_of(session: Session, run: Run) -> str | None:
    """The local folder inspection found for this checkpoint and these weights; None if inspection is to find it."""
    if run.stage == StageName.INSPECT:
        return None
    inspected = repository.inspection_of(session, run.checkpoint_id, run.profile, run.weights_mode)
    found = inspected.evidence.get(CHECKPOINT_DIR) if inspected else None
    return found or session.get_one(Checkpoint, run.checkpoint_id).local_path


def diagnoses_for(session: Session, run: Run) -> list[DiagnosisRow]:
    """The diagnoses a draft run works from: those of its parent."""
    return list(session.get_one(Run, run.parent_run_id).diagnoses) if run.parent_run_id else []
