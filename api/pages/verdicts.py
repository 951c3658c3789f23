"""A model's verdict in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from api.pages.labels import kind_word
from api.repository import ModelRow
from pipeline.sweeps.models import CheckpointStatus
from pipeline.work.models import Outcome, Run

WEIGHTS = {"real": "its own weights", "synthetic": "synthetic weights"}


def verdict_of(row: ModelRow, runs: Sequence[Run], adapter: str | None) -> str:
    """Does it run, how well, with what; or why not, and what happens next."""
    if row.status is None:
        return _not_run(row)
    where = f"on the simulated Spyre, {row.status.profile}"
    if row.status.outcome == Outcome.PASSED:
        how = _with(adapter) or " as it is, without an adapter"
        return f"Runs {where}{how}, verified with {_weights(row.status)}{_cosine(row.status, runs)}."
    if row.status.outcome == Outcome.FAILED and row.waiting:
        return f"Does not run {where} yet: candidate {row.waiting} would make it pass and waits for your review."
    if row.status.outcome == Outcome.FAILED:
        return f"Does not run {where}{_with(adapter)}: {_why(row.status)}"
    if row.status.outcome == Outcome.INFRA:
        return f"No verdict {where}: our fault, will be retried. {_why(row.status)}"
    return f"No verdict {where} yet: {_why(row.status)}"


def _not_run(row: ModelRow) -> str:
    if row.entry is not None and row.entry.dropped_kind:
        return f"Left out ({kind_word(row.entry.dropped_kind)}): {row.entry.dropped_reason}"
    return "Not run yet on this profile: request it, or wait for the next sweep."


def _with(adapter: str | None) -> str:
    return f" with adapter {adapter}" if adapter else ""


def _weights(status: CheckpointStatus) -> str:
    depth = f" at depth {status.depth}" if status.depth and status.depth != "full" else ""
    weights = WEIGHTS.get(status.weights or "", "unknown weights")
    return f"{weights}{depth}{executed_as(status)}"


def executed_as(status: CheckpointStatus) -> str:
    """Says whose execution a derived verdict is; empty for a verdict of its own."""
    speaker = status.speaker
    return f", executed once for its group as {speaker.model.name}" if speaker else ""


def _cosine(status: CheckpointStatus, runs: Sequence[Run]) -> str:
    run = next((run for run in runs if run.id == status.run_id), None)
    value = run.measurements.get("worst_token_cosine") if run else None
    return f"; lowest token cosine {value:.5f}" if isinstance(value, float) else ""


def _why(status: CheckpointStatus) -> str:
    reason = status.reason or kind_word(status.kind) or "its first stage went well, it has not been executed"
    return reason if reason.endswith(".") else f"{reason}."
