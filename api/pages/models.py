"""The list of models and a model's own page."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import Field
from sqlalchemy.orm import Session

from agents.types import FailureKind
from api import repository
from api.cursors import decode
from api.pages import labels
from api.pages.findings import curve_of, findings, newest_diagnosis, op_map, script_in
from api.pages.rendering import render
from api.pages.verdicts import verdict_of
from api.presentation import current_failures, executed_checkpoint, failure_item, model_item, snippet
from api.repository import ModelRow
from api.rest.models import next_cursor
from api.rest.schemas import OutcomeFilter, Strict
from api.security.identity import Reader
from pipeline.database.unit_of_work import reading
from pipeline.errors import NotFound
from pipeline.review.evidence import document_digest
from pipeline.review.models import EvidenceRow
from pipeline.review.repository import candidates_of_checkpoint
from pipeline.settings import get_settings
from pipeline.sweeps.repository import get_model, statuses_of_model
from pipeline.sweeps.service import adapter_label
from pipeline.work.environment import environment_digest
from pipeline.work.flow import STATUS_STAGES
from pipeline.work.models import Run, RunState, StageName
from pipeline.work.repository import runs_of_checkpoint

router = APIRouter()
PAGE_ROWS = 100
EXPORT_ROWS = 500
Column = Literal["why", "adapter", "family", "weights", "verified", "rank", "downloads"]
COLUMNS: dict[Column, str] = {
    "why": "Why",
    "adapter": "Adapter",
    "family": "Family",
    "weights": "Weights",
    "verified": "Verdict of",
    "rank": "Rank",
    "downloads": "Downloads",
}
DEFAULT_COLUMNS: list[Column] = ["why", "adapter", "downloads"]
NARROWED = ("family", "op", "adapter")
"""Filters that other pages link to: shown as what they are, with a way out of them."""
EXPORTED = (
    "model", "rank", "downloads", "outcome", "kind", "reason", "supported", "weights", "tier", "depth", "stale",
    "adapter", "waiting_candidate", "revision", "updated_at",
)  # fmt: skip


class ListQuery(Strict):
    """Filters, order and columns of the list; they live in the address."""

    q: Annotated[str, Field(max_length=200)] = ""
    outcome: OutcomeFilter | Annotated[str, Field(max_length=0)] = ""
    family: Annotated[str, Field(max_length=64)] = ""
    op: Annotated[str, Field(max_length=120)] = ""
    kind: FailureKind | Annotated[str, Field(max_length=0)] = ""
    adapter: Annotated[int, Field(ge=1, le=2**31 - 1)] | Annotated[str, Field(max_length=0)] = ""
    weights: Literal["real", "synthetic", ""] = ""
    stale: Literal["yes", ""] = ""
    sort: Literal["downloads", "name"] = "downloads"
    columns: Annotated[list[Column], Field(default_factory=list)]
    after: Annotated[str, Field(max_length=600)] = ""

    @property
    def narrow(self) -> repository.Narrow:
        """The filters besides the outcome."""
        return repository.Narrow(
            self.q.strip(), self.family, self.op, self.kind, int(self.adapter or 0), self.weights, bool(self.stale)
        )


@router.get("/models")
def show_models(request: Request, _caller: Reader, query: Annotated[ListQuery, Query()]) -> Response:
    """The list, in pages of `PAGE_ROWS`."""
    profile = get_settings().profile
    after = decode(query.after, query.sort) if query.after else None
    how: dict[str, Any] = {"narrow": query.narrow, "outcome": query.outcome or None, "sort": query.sort}
    with reading() as session:
        rows = repository.list_models(session, profile, after=after, limit=PAGE_ROWS + 1, **how)
        shown = [_line(session, row) for row in rows[:PAGE_ROWS]]
        counts = repository.count_outcomes(session, profile, query.narrow)
    context: dict[str, Any] = {
        "rows": shown,
        "counts": _chips(counts),
        "query": query,
        "address": Address(query),
        "following": next_cursor(rows, PAGE_ROWS, query.sort),
        "columns": query.columns or DEFAULT_COLUMNS,
        "all_columns": COLUMNS,
        "kinds": labels.KINDS,
        "narrowed": [(name, str(getattr(query, name))) for name in NARROWED if getattr(query, name)],
    }
    return render(request, "models.html", **context)


@router.get("/models.csv")
def export_models(_caller: Reader, query: Annotated[ListQuery, Query()]) -> Response:
    """Every model that the filters leave, as CSV."""
    how: dict[str, Any] = {"narrow": query.narrow, "outcome": query.outcome or None, "sort": query.sort}
    headers = {"Content-Disposition": 'attachment; filename="models.csv"'}
    return StreamingResponse(_csv(get_settings().profile, how), media_type="text/csv; charset=utf-8", headers=headers)


def _csv(profile: str, how: dict[str, Any]) -> Iterator[str]:
    """Lines, read in pages: no transaction is open while a slow client reads."""
    yield _csv_line(EXPORTED)
    after = None
    while True:
        with reading() as session:
            rows = repository.list_models(session, profile, after=after, limit=EXPORT_ROWS + 1, **how)
            items = [model_item(session, row) for row in rows[:EXPORT_ROWS]]
        yield "".join(_csv_line([item[name] for name in EXPORTED]) for item in items)
        cursor = next_cursor(rows, EXPORT_ROWS, how["sort"])
        if cursor is None:
            return
        after = decode(cursor, how["sort"])


def _csv_line(values: Sequence[Any]) -> str:
    """One line. A text that a spreadsheet would take for a formula is marked as text."""
    line = io.StringIO()
    texts = ("" if value is None else str(value) for value in values)
    csv.writer(line).writerow([f"'{text}" if text[:1] in "=+-@\t\r" and text else text for text in texts])
    return line.getvalue()


class Address:
    """Addresses of this list with something changed; a changed filter begins at the first page."""

    def __init__(self, query: ListQuery) -> None:
        self._kept = {k: v for k, v in query.model_dump().items() if v and k != "after"}

    def __call__(self, path: str = "/models", **changed: str) -> str:
        """The address with these fields in place of the present ones."""
        fields = {k: v for k, v in {**self._kept, **changed}.items() if v}
        return path + (f"?{urlencode(fields, doseq=True)}" if fields else "")


def _chips(counts: dict[str, int]) -> dict[str, int]:
    every = sum(n for outcome, n in counts.items() if outcome != repository.WAITING)
    return {"": every, **{name: counts.get(name, 0) for name in labels.OUTCOMES if name}}


def _line(session: Session, row: ModelRow) -> dict[str, Any]:
    status = row.status
    return {
        "name": row.model.name,
        "downloads": row.model.downloads,
        "mark": labels.status_mark(status, row.waiting, row.entry),
        "reason": _reason(row),
        "adapter": adapter_label(session, status.adapter_id) if status else None,
        "adapter_id": status.adapter_id if status else None,
        "waiting": row.waiting,
        "family": status.checkpoint.family if status else None,
        "weights": status.weights if status and status.outcome == "passed" else None,
        "verified": status.updated_at if status else None,
        "rank": row.model.rank,
    }


def _reason(row: ModelRow) -> str:
    if row.status is None:
        return (row.entry.dropped_reason if row.entry else None) or ""
    if row.status.outcome == "passed":
        return f"stock: {row.status.stock_reason}" if row.status.stock_causes and row.status.adapter_id else ""
    return row.status.reason or labels.kind_word(row.status.kind)


@router.get("/diagnoses/{number}/reproducer.py")
def get_reproducer(_caller: Reader, number: Annotated[int, Path(ge=1, le=2**31 - 1)]) -> Response:
    """The script that shows one failure on its own. Raises `NotFound` if none was kept."""
    with reading() as session:
        script = script_in(repository.get_diagnosis(session, number))
    if script is None:
        raise NotFound(f"Diagnosis {number} has no script that failed the same way on its own.")
    headers = {"Content-Disposition": f'attachment; filename="reproducer-{number}.py"'}
    return Response(script, media_type="text/x-python; charset=utf-8", headers=headers)


@router.get("/models/{name:path}")
def show_model(request: Request, _caller: Reader, name: str) -> Response:
    """One model's story."""
    profile = get_settings().profile
    with reading() as session:
        model = get_model(session, name)
        row = repository.row_of_model(session, profile, model)
        context = _story(session, row, profile)
        others = [s for s in statuses_of_model(session, model.id) if s.profile != profile]
        return render(request, "model.html", model=model, row=row, others=others, **context)


def _story(session: Session, row: ModelRow, profile: str) -> dict[str, Any]:
    status = row.status
    executed = executed_checkpoint(status) if status else None
    runs = runs_of_checkpoint(session, executed, profile) if executed else []
    passed = status is not None and status.outcome == "passed"
    failures = current_failures(row, runs)
    stock = [] if failures else stock_failures(runs)
    diagnosis = newest_diagnosis(runs)
    return {
        "mark": labels.status_mark(status, row.waiting, row.entry),
        "verdict": verdict_of(row, runs, adapter_label(session, status.adapter_id) if status else None),
        "snippet": snippet(row.model.name, status.adapter) if passed and status else None,
        "stages": newest_stages(runs),
        "runs": runs,
        "failures": findings(failures, diagnosis),
        "stock_failures": findings(stock, diagnosis),
        "map": op_map(failures or stock),
        "curve": curve_of(diagnosis),
        "evidence": [_evidence(e) for e in repository.evidence_of_checkpoint(session, executed)] if executed else [],
        "history": verdicts_by_environment(runs),
        "today": environment_digest(profile),
        "measured": next((run for run in runs if run.measurements.get("worst_token_cosine") is not None), None),
        "candidates": candidates_of_checkpoint(session, executed) if executed else [],
        "twins": repository.same_fingerprint(session, status) if status else [],
    }


def newest_stages(runs: list[Run]) -> list[Run]:
    """The newest run of each stage, in the order of the stages."""
    newest: dict[str, Run] = {}
    for run in runs:
        newest.setdefault(run.stage, run)
    return [newest[stage] for stage in StageName if stage in newest]


def stock_failures(runs: list[Run]) -> list[dict[str, Any]]:
    """What fails without an adapter, from the newest run that found something."""
    stock = [run for run in runs if run.failures and run.adapter_id is None and run.candidate_id is None]
    found = max(stock, key=lambda run: (run.stage == StageName.DIAGNOSE, run.id), default=None)
    return [failure_item(failure) for failure in found.failures] if found else []


def verdicts_by_environment(runs: list[Run]) -> list[Run]:
    """The newest run that decided in each environment, newest first."""
    decided = [run for run in runs if run.stage in STATUS_STAGES and run.state == RunState.DONE]
    newest: dict[str, Run] = {}
    for run in decided:
        newest.setdefault(run.environment, run)
    return list(newest.values())


def _evidence(row: EvidenceRow) -> dict[str, Any]:
    named = ("id", "candidate_id", "run_id", "tier", "outcome", "weights", "complete", "digest", "created_at")
    figures = {k: row.measurements.get(k) for k in ("worst_token_cosine", "pooled_cosine", "cases")}
    return {**{name: getattr(row, name) for name in named}, **figures, "document": document_digest(row.artefacts)}
