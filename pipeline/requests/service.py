"""Requests: make one (once per idempotency key), queue the model it names, and say how far it is."""

from __future__ import annotations

import hashlib
import uuid
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from agents.types import canonical
from pipeline.catalogue.entry import CatalogueEntry
from pipeline.database.events import emit
from pipeline.database.insert import insert_or_return
from pipeline.database.models import Principal
from pipeline.database.unit_of_work import database_now
from pipeline.requests import repository
from pipeline.requests.errors import IdempotencyConflict
from pipeline.requests.models import RequestRow, RequestState
from pipeline.sweeps import repository as sweeps
from pipeline.sweeps.catalogue import entry_of
from pipeline.sweeps.errors import UnknownModel
from pipeline.sweeps.schemas import SweepOptions
from pipeline.sweeps.service import is_finished, start_sweep, sweep_report
from pipeline.work.control import Cancelled, cancel_sweep

ANYBODY = "anybody"
"""The requester of requests that nobody in particular made."""


class Created(NamedTuple):
    """The request, and whether this call made it (False: the same idempotency key came before)."""

    request: RequestRow
    created: bool


def create_request(
    session: Session,
    model: str,
    profile: str,
    *,
    principal: Principal | None = None,
    note: str = "",
    idempotency_key: str | None = None,
    releases: str = "bundled",
) -> Created:
    """Ask for an adapter for a model that a catalogue lists; its stages are queued before those of any sweep.

    Raises `UnknownModel` for a model nobody listed, `IdempotencyConflict` if the key came with another body.
    """
    body = hashlib.sha256(canonical([model, profile, note])).hexdigest()
    key = idempotency_key or f"auto-{uuid.uuid4()}"
    values = {
        "id": str(uuid.uuid4()),
        "model": model,
        "profile": profile,
        "note": note,
        "principal_id": principal.id if principal else None,
        "body_digest": body,
        "created_at": database_now(session),
    }
    found = insert_or_return(session, RequestRow, {"idempotency_key": key}, values)
    request: RequestRow = found.row
    if request.body_digest != body:
        raise IdempotencyConflict(f"The key {key!r} was used before for a request for {request.model!r}.")
    if found.created:
        _queue(session, request, releases)
    return Created(request, found.created)


def _queue(session: Session, request: RequestRow, releases: str) -> None:
    entry = listed_entry(session, request.model)
    how = SweepOptions(request.profile, releases=releases, request_id=request.id, requester=requester_of(request))  # type: ignore[arg-type]
    start_sweep(session, f"request {request.id}", [entry], how)
    emit(session, "request.created", "request", request.id, request_id=request.id, model=request.model)


def requester_of(request: RequestRow) -> str:
    """Who takes a turn in the queue for this request."""
    return ANYBODY if request.principal_id is None else f"principal {request.principal_id}"


def listed_entry(session: Session, name: str) -> CatalogueEntry:
    """The catalogue row of a model: a stored one, else of the bundled catalogue. Raises `UnknownModel`."""
    from pipeline.catalogue.starter import find_starter

    checkpoint = sweeps.checkpoint_of_model(session, name)
    entry = entry_of(checkpoint) if checkpoint else find_starter(name)
    if entry is None:
        raise UnknownModel(
            f"No catalogue here lists {name!r}: check the spelling, or run `spyre-factory catalog refresh`."
        )
    return entry


def request_status(session: Session, request_id: str) -> dict[str, Any]:
    """How far a request is: its row, its model's outcome and reason, and the candidate that waits, if one does."""
    request = repository.get_request(session, request_id)
    sweep = repository.sweep_of_request(session, request_id)
    report = sweep_report(session, sweep.id) if sweep else {"models": []}
    if sweep and request.state == RequestState.OPEN and is_finished(session, sweep.id):
        state = RequestState.DONE.value
    else:
        state = request.state
    return {
        "id": request.id,
        "model": request.model,
        "profile": request.profile,
        "state": state,
        "note": request.note,
        "created_at": request.created_at.isoformat(),
        "result": report["models"][0] if report["models"] else None,
    }


def cancel_request(session: Session, request: RequestRow) -> Cancelled:
    """End a request and the runs that only it waits for. One that has ended stays as it is."""
    if request.state != RequestState.OPEN:
        return Cancelled([], [])
    request.state, request.finished_at = RequestState.CANCELLED, database_now(session)
    session.flush()
    sweep = repository.sweep_of_request(session, request.id)
    done = cancel_sweep(session, sweep) if sweep else Cancelled([], [])
    emit(session, "request.cancelled", "request", request.id, request_id=request.id)
    return done


def cancel_named(session: Session, what: str) -> Cancelled:
    """End the request with this id, or the sweep with this number. Raises `UnknownRequest`, `UnknownSweep`."""
    if what.isascii() and what.isdecimal():
        return cancel_sweep(session, sweeps.get_sweep(session, int(what)))
    return cancel_request(session, repository.get_request(session, what))
