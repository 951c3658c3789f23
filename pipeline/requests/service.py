"""Requests: make one (the same is open only once), queue the model it names, say how far it is, end it."""

from __future__ import annotations

import hashlib
import uuid
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from agents.types import canonical
from pipeline.catalogue.entry import CatalogueEntry
from pipeline.database.events import emit
from pipeline.database.insert import insert_or_return
from pipeline.database.models import Principal
from pipeline.database.unit_of_work import database_now
from pipeline.notices.service import callback
from pipeline.requests import repository
from pipeline.requests.errors import QuotaExceeded
from pipeline.requests.lookup import LOCAL, listed_entry
from pipeline.requests.models import RequestRow, RequestState
from pipeline.settings import get_settings
from pipeline.sweeps import repository as sweeps
from pipeline.sweeps.models import CheckpointStatus
from pipeline.sweeps.schemas import SweepOptions
from pipeline.sweeps.service import is_finished, start_sweep, sweep_report
from pipeline.work.control import Cancelled, cancel_sweep
from pipeline.work.models import Outcome, RunState

ANYBODY = "anybody"
"""The requester of requests that nobody in particular made."""


class Stage(StrEnum):
    """How far a request is, as callers read it."""

    QUEUED = "queued"
    RUNNING = "running"
    REVIEW = "review"
    READY = "ready"
    FAILED = "failed"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"


OVER = frozenset({Stage.READY, Stage.FAILED, Stage.UNKNOWN, Stage.CANCELLED})
"""Nothing more happens by itself."""


class Created(NamedTuple):
    """The request, and whether this call made it (False: the same was open already)."""

    request: RequestRow
    created: bool


def create_request(
    session: Session,
    model: str,
    profile: str,
    *,
    principal: Principal | None = None,
    note: str = "",
    releases: str = "bundled",
    revision: str | None = None,
    callback_url: str | None = None,
    found: CatalogueEntry | None = None,
) -> Created:
    """Ask for an adapter for a model; its stages are queued before those of any sweep.

    `found` is the model's row where no catalogue has it (`pipeline.requests.lookup`). The same principal's same
    request is returned while it is open. Raises `UnknownModel` for a model nobody listed, `QuotaExceeded`.
    """
    who = principal.id if principal else None
    body = hashlib.sha256(canonical([model, profile, note, revision, callback_url])).hexdigest()
    open_key = hashlib.sha256(canonical([who, body])).hexdigest()
    same = repository.find_open(session, open_key) or _check_quota(session, who, open_key)
    if same is not None:
        return Created(same, False)
    values = {
        "id": str(uuid.uuid4()),
        "model": model,
        "revision": revision,
        "profile": profile,
        "note": note,
        "principal_id": who,
        "body_digest": body,
        "callback_url": callback_url,
        "created_at": database_now(session),
    }
    inserted = insert_or_return(session, RequestRow, {"open_key": open_key}, values)
    if inserted.created:
        _queue(session, inserted.row, releases, found)
    return Created(inserted.row, inserted.created)


def _check_quota(session: Session, principal_id: int | None, open_key: str) -> RequestRow | None:
    """The same request if it was made while this one waited for its turn: it takes no place of its own."""
    settings = get_settings()
    repository.lock_requester(session, principal_id)
    same = repository.find_open(session, open_key)
    if same is not None:
        return same
    if repository.count_open(session, principal_id) >= settings.quota_open_requests:
        raise QuotaExceeded(f"{settings.quota_open_requests} requests are open already: wait, or cancel some.")
    if repository.count_of_day(session, principal_id, database_now(session)) >= settings.quota_requests_per_day:
        raise QuotaExceeded(f"{settings.quota_requests_per_day} requests were made within 24 hours: come back later.")
    return None


def _queue(session: Session, request: RequestRow, releases: str, found: CatalogueEntry | None) -> None:
    entry = found or listed_entry(session, request.model, request.revision)
    how = SweepOptions(
        request.profile,
        weights="synthetic" if request.model.startswith(f"{LOCAL}/") else "auto",
        releases=releases,  # type: ignore[arg-type]
        request_id=request.id,
        requester=requester_of(request),
    )
    emit(session, "request.created", "request", request.id, request_id=request.id, model=request.model)
    start_sweep(session, f"request {request.id}", [entry], how)


def requester_of(request: RequestRow) -> str:
    """Who takes a turn in the queue for this request."""
    return requester_name(request.principal_id)


def requester_name(principal_id: int | None) -> str:
    """A principal, or nobody in particular, as the queue and idempotency keys know them."""
    return ANYBODY if principal_id is None else f"principal {principal_id}"


def stage_of(session: Session, request: RequestRow) -> Stage:
    """How far a request is, from the rows it caused."""
    if request.state == RequestState.CANCELLED:
        return Stage.CANCELLED
    sweep = repository.sweep_of_request(session, request.id)
    if sweep is None:
        return Stage.UNKNOWN
    if not is_finished(session, sweep.id):
        runs = sweeps.sweep_runs(session, sweep.id)
        return Stage.QUEUED if all(run.state == RunState.QUEUED for run, _ in runs) else Stage.RUNNING
    entry = repository.entry_of_sweep(session, sweep)
    if entry is None or entry.checkpoint_id is None:
        return Stage.FAILED if entry and entry.dropped_kind else Stage.UNKNOWN
    return _stage_of_checkpoint(session, entry.checkpoint_id, request.profile)


def _stage_of_checkpoint(session: Session, checkpoint_id: int, profile: str) -> Stage:
    status = session.get(CheckpointStatus, (checkpoint_id, profile))
    if repository.has_active_runs(session, checkpoint_id, profile):
        return Stage.RUNNING
    if status is None:
        return Stage.UNKNOWN
    if status.outcome == Outcome.FAILED:
        return Stage.REVIEW if repository.waits_for_review(session, checkpoint_id, profile) else Stage.FAILED
    return Stage.READY if status.outcome == Outcome.PASSED else Stage.UNKNOWN


def close_finished_requests(session: Session) -> list[str]:
    """End the open requests of which nothing more comes by itself; returns their ids."""
    closed = []
    for request in repository.open_requests_of_ended_sweeps(session):
        stage = stage_of(session, request)
        if stage in OVER:
            _close(session, request, RequestState.DONE)
            emit(session, "request.finished", "request", request.id, request_id=request.id, state=stage.value)
            callback(session, request, "request.finished", state=stage.value)
            closed.append(request.id)
    return closed


def _close(session: Session, request: RequestRow, state: RequestState) -> None:
    request.state, request.open_key, request.finished_at = state, None, database_now(session)
    session.flush()


def cancel_request(session: Session, request: RequestRow) -> Cancelled:
    """End a request and the runs that only it waits for. One that has ended stays as it is."""
    if request.state != RequestState.OPEN:
        return Cancelled([], [])
    _close(session, request, RequestState.CANCELLED)
    sweep = repository.sweep_of_request(session, request.id)
    done = cancel_sweep(session, sweep) if sweep else Cancelled([], [])
    emit(session, "request.cancelled", "request", request.id, request_id=request.id)
    callback(session, request, "request.cancelled", state=Stage.CANCELLED.value)
    return done


def cancel_named(session: Session, what: str) -> Cancelled:
    """End the request with this id, or the sweep with this number. Raises `UnknownRequest`, `UnknownSweep`."""
    if what.isascii() and what.isdecimal():
        return cancel_sweep(session, sweeps.get_sweep(session, int(what)))
    return cancel_request(session, repository.get_request(session, what))


def request_status(session: Session, request_id: str) -> dict[str, Any]:
    """How far a request is: its row, its model's outcome and reason, and the candidate that waits, if one does."""
    request = repository.get_request(session, request_id)
    sweep = repository.sweep_of_request(session, request_id)
    report = sweep_report(session, sweep.id) if sweep else {"models": []}
    over = request.state == RequestState.OPEN and stage_of(session, request) in OVER
    return {
        "id": request.id,
        "model": request.model,
        "profile": request.profile,
        "state": RequestState.DONE.value if over else request.state,
        "note": request.note,
        "created_at": request.created_at.isoformat(),
        "result": report["models"][0] if report["models"] else None,
    }
