"""Rows as plain answers: the same facts for REST and pages. Imports no HTTP."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy.orm import Session

from api import repository
from api.model_filter import NOT_RUN
from api.pages.labels import is_stale, model_url
from api.repository import ModelRow
from pipeline.errors import NotFound
from pipeline.releases.models import Adapter
from pipeline.requests.models import RequestRow
from pipeline.requests.repository import entry_of_sweep, get_request, sweep_of_request
from pipeline.requests.service import stage_of
from pipeline.sweeps.models import CheckpointStatus
from pipeline.sweeps.repository import get_model
from pipeline.sweeps.service import adapter_label
from pipeline.work.models import DiagnosisRow, Outcome, Run, RunState
from pipeline.work.order import queued_before
from pipeline.work.repository import runs_of_checkpoint

FAILURE_FIELDS = ("kind", "op", "source", "module", "place", "count", "after", "message")
RUN_FIELDS = (
    "id", "stage", "state", "outcome", "kind", "reason", "seconds", "weights", "tier", "depth", "adapter_id",
    "candidate_id", "environment", "measurements", "artefacts", "finished_at",
)  # fmt: skip
ADAPTER_FIELDS = (
    "id", "name", "version", "origin", "state", "family", "profile", "digest", "scripted", "candidate_id",
    "created_at", "withdrawn_at", "withdrawn_reason", "manifest",
)  # fmt: skip
STATUS_FIELDS = ("outcome", "reason", "kind", "stage", "supported", "adapter_id", "scripted", "weights", "tier",
                 "depth", "fingerprint", "updated_at")  # fmt: skip
SNIPPET = """from sentence_transformers import SentenceTransformer
from spyre_adapters import enable_sentence_transformers

enable_sentence_transformers()
model = SentenceTransformer({model}, backend="spyre"{more})
print(model.encode(["hello"]).shape)"""


def model_item(session: Session, row: ModelRow) -> dict[str, Any]:
    """A model and where it stands."""
    status, model = row.status, row.model
    base = {
        "model": model.name,
        "rank": model.rank,
        "downloads": model.downloads,
        "page": model_url(model.name),
        "waiting_candidate": row.waiting,
    }
    if status is None:
        return {**base, **_without_status(row)}
    return {
        **base,
        **{name: getattr(status, name) for name in STATUS_FIELDS},
        "revision": status.checkpoint.revision,
        "adapter": adapter_label(session, status.adapter_id),
        "stale": is_stale(status),
        "derived_from": status.speaker.model.name if status.speaker else None,
    }


def _without_status(row: ModelRow) -> dict[str, Any]:
    dropped = row.entry is not None and row.entry.dropped_kind is not None
    nothing = dict.fromkeys((*STATUS_FIELDS, "revision", "adapter", "derived_from"))
    told = {
        "outcome": Outcome.FAILED.value if dropped else NOT_RUN,
        "kind": row.entry.dropped_kind if row.entry else None,
        "reason": (row.entry.dropped_reason if row.entry else None) or "",
    }
    return {**nothing, "supported": False, "scripted": False, "stale": False, **told}


def executed_checkpoint(status: CheckpointStatus) -> int:
    """The checkpoint whose runs speak for this status: itself, or the one of its group that was executed."""
    return status.derived_from or status.checkpoint_id


def model_details(session: Session, name: str, profile: str) -> dict[str, Any]:
    """A model with its failures and runs on a profile. Raises `UnknownModel`."""
    row = repository.row_of_model(session, profile, get_model(session, name))
    runs = runs_of_checkpoint(session, executed_checkpoint(row.status), profile) if row.status else []
    twins = repository.same_fingerprint(session, row.status) if row.status else []
    return {
        **model_item(session, row),
        "profile": profile,
        "failures": current_failures(row, runs),
        "runs": [run_item(run) for run in runs],
        "same_fingerprint": [twin.checkpoint.model.name for twin in twins],
    }


def current_failures(row: ModelRow, runs: list[Run]) -> list[dict[str, Any]]:
    """What keeps the model from passing now: the failures of the run that speaks for it, else of its diagnosis."""
    if row.status is None or row.status.outcome != Outcome.FAILED:
        return []
    speaking = next((run for run in runs if run.id == row.status.run_id), None)
    diagnosed = [run for run in runs if run.stage == "diagnose" and run.state == RunState.DONE]
    found = max(filter(None, [speaking, *diagnosed[:1]]), key=lambda run: len(run.failures), default=None)
    return [failure_item(failure) for failure in found.failures] if found else []


def failure_item(failure: Any) -> dict[str, Any]:
    """One failure."""
    return {name: getattr(failure, name) for name in FAILURE_FIELDS}


def run_item(run: Run) -> dict[str, Any]:
    """One run with its failures."""
    values = {name: getattr(run, name) for name in RUN_FIELDS}
    return {**values, "failures": [failure_item(f) for f in run.failures]}


def adapter_item(adapter: Adapter) -> dict[str, Any]:
    """One adapter with its manifest and where to download it."""
    values = {name: getattr(adapter, name) for name in ADAPTER_FIELDS}
    return {**values, "download": manifest_url(adapter)}


def manifest_url(adapter: Adapter) -> str:
    """Where an adapter's manifest is downloaded."""
    return f"/api/v1/adapters/{adapter.id}/manifest"


def adapter_link(adapter: Adapter) -> dict[str, Any]:
    """The adapter to use."""
    named = {name: getattr(adapter, name) for name in ("id", "name", "version", "digest")}
    return {**named, "download": manifest_url(adapter)}


def snippet(model: str, adapter: Adapter | None) -> str:
    """The code that runs a model with its adapter; a released one is named by its downloaded manifest."""
    needs_file = adapter is not None and adapter.origin != "bundled"
    file = f"{adapter.name}-v{adapter.version}.json" if adapter else ""
    more = f', model_kwargs={{"spyre_manifest": {json.dumps(file)}}}' if needs_file else ""
    return SNIPPET.format(model=json.dumps(model, ensure_ascii=False), more=more)


def request_answer(session: Session, request_id: str, workers: int) -> dict[str, Any]:
    """A request, how far it is, what is known of its model and what happens next. Raises `UnknownRequest`."""
    request = get_request(session, request_id)
    row = _row_of_request(session, request)
    runs = repository.runs_of_request(session, request_id)
    state = stage_of(session, request).value
    position = _position(session, runs)
    adapter = row.status.adapter if row.status and state == "ready" else None
    known = model_item(session, row)
    all_runs = runs_of_checkpoint(session, executed_checkpoint(row.status), request.profile) if row.status else []
    return {
        **{name: getattr(request, name) for name in ("id", "model", "revision", "profile", "created_at")},
        "state": state,
        "position": position,
        "expected_wait_s": _expected_wait_s(session, position, workers),
        "known": {"outcome": known["outcome"], "failures": current_failures(row, all_runs)},
        "waiting_candidate": row.waiting,
        "adapter": adapter_link(adapter) if adapter else None,
        "use": snippet(request.model, adapter) if state == "ready" else None,
        "events": f"/api/v1/requests/{request_id}/events",
        "next": NEXT[state].format(candidate=row.waiting, reason=known["reason"] or "see its page"),
        "page": f"/requests/{request_id}",
    }


NEXT = {
    "queued": "Wait: its first stage has not begun. The page shows when it does.",
    "running": "Wait: its stages are running. The page shows them.",
    "review": "A reviewer has to decide on candidate {candidate}: /review/{candidate}.",
    "ready": "Use it: the code is in `use`.",
    "failed": "No adapter can be offered: {reason}",
    "unknown": "There is no verdict: {reason}",
    "cancelled": "It was cancelled; ask again if it is still wanted.",
}


def _row_of_request(session: Session, request: RequestRow) -> ModelRow:
    """The model of a request, at the revision it is about."""
    sweep = sweep_of_request(session, request.id)
    entry = entry_of_sweep(session, sweep) if sweep else None
    checkpoint = entry.checkpoint_id if entry else None
    return repository.row_of_model(session, request.profile, get_model(session, request.model), checkpoint)


def _position(session: Session, runs: list[Run]) -> int | None:
    """Its place in the queue, from 1; None when nothing of it is queued."""
    queued = [run for run in runs if run.state == RunState.QUEUED]
    return min(queued_before(session, run) for run in queued) + 1 if queued else None


def _expected_wait_s(session: Session, position: int | None, workers: int) -> float | None:
    mean_s = repository.mean_run_s(session) if position else None
    return None if mean_s is None or position is None else round(mean_s * position / workers, 1)


def script_in(row: DiagnosisRow) -> str | None:
    """The script that shows the failure, if one was kept."""
    found = row.data.get("evidence", {}).get("reproducer") or {}
    return found.get("script") if isinstance(found, dict) else None


def reproducer_of(session: Session, number: int) -> str:
    """The script of a diagnosis. Raises `NotFound` for an unknown one, or where none failed the same way on its own."""
    script = script_in(repository.get_diagnosis(session, number))
    if script is None:
        raise NotFound(f"Diagnosis {number} has no script that failed the same way on its own.")
    return script
