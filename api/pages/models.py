"""The list of models and a model's own page."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import Field
from sqlalchemy.orm import Session

from agents.types import FailureKind
from api import repository
from api.kept import Kept
from api.model_filter import FREE_FIELDS, ORDERS, WAITING, Sort, Wanted, cursor_of
from api.model_list import as_csv, count_outcomes, every_item, facts_of, next_cursor, page_of
from api.pages import labels
from api.pages.findings import curve_of, findings, newest_diagnosis, op_map, unsearched_of
from api.pages.rendering import render
from api.pages.verdicts import verdict_of
from api.presentation import (
    current_failures,
    executed_checkpoint,
    failure_item,
    model_item,
    reproducer_of,
    snippet,
)
from api.repository import ModelRow
from api.rest.adapters import PYTHON, download
from api.rest.schemas import NO_NUL, OutcomeFilter, Strict
from api.security.identity import Reader
from pipeline.database.unit_of_work import reading
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
Column = Literal["why", "adapter", "family", "weights", "verified", "rank", "downloads"]
SORTS: dict[Sort, str] = {
    "downloads": "downloads",
    "name": "name",
    "rank": "rank",
    "status": "status",
    "family": "family",
    "adapter": "adapter",
    "weights": "weights",
    "verified": "newest verdict",
}
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


class ListQuery(Strict):
    """Filters, order and columns of the list; they live in the address."""

    q: Annotated[str, Field(max_length=200, pattern=NO_NUL)] = ""
    outcome: OutcomeFilter | Annotated[str, Field(max_length=0)] = ""
    family: Annotated[str, Field(max_length=64, pattern=NO_NUL)] = ""
    op: Annotated[str, Field(max_length=120, pattern=NO_NUL)] = ""
    kind: FailureKind | Annotated[str, Field(max_length=0)] = ""
    adapter: Annotated[int, Field(ge=1, le=2**31 - 1)] | Annotated[str, Field(max_length=0)] = ""
    weights: Literal["real", "synthetic", ""] = ""
    stale: Literal["yes", ""] = ""
    sort: Sort = "downloads"
    reverse: Literal["yes", ""] = ""
    columns: Annotated[list[Column], Field(default_factory=list)]
    after: Annotated[str, Field(max_length=600)] = ""

    @property
    def wanted(self) -> Wanted:
        """The filters and the order."""
        same = ("outcome", "family", "op", "kind", "weights", "sort")
        kept = {name: str(getattr(self, name)) for name in same}
        flags = {"adapter": int(self.adapter or 0), "stale": bool(self.stale), "reverse": bool(self.reverse)}
        return Wanted(search=self.q.strip(), **kept, **flags)  # type: ignore[arg-type]


@router.get("/models")
def show_models(request: Request, _caller: Reader, query: Annotated[ListQuery, Query()]) -> Response:
    """The list, in pages of `PAGE_ROWS`."""
    profile, wanted = get_settings().profile, query.wanted
    after = cursor_of(query.after, wanted) if query.after else None
    with reading() as session:
        rows = page_of(session, profile, wanted, after, PAGE_ROWS + 1)
        counts = _counts(session, profile, wanted, request.app.state.kept)
    context: dict[str, Any] = {
        "rows": [_line(item) for item in facts_of(rows[:PAGE_ROWS], profile)],
        "counts": _chips(counts),
        "query": query,
        "address": Address(query),
        "following": next_cursor(rows, PAGE_ROWS, wanted),
        "columns": query.columns or DEFAULT_COLUMNS,
        "all_columns": COLUMNS,
        "sorts": SORTS,
        "direction": "descending" if ORDERS[wanted.sort].falls != wanted.reverse else "ascending",
        "kinds": labels.KINDS,
        "narrowed": [(name, str(getattr(query, name))) for name in NARROWED if getattr(query, name)],
    }
    return render(request, "models.html", **context)


@router.get("/models.csv")
def export_models(_caller: Reader, query: Annotated[ListQuery, Query()]) -> Response:
    """Every model that the filters leave, as CSV."""
    headers = {"Content-Disposition": 'attachment; filename="models.csv"'}
    lines = as_csv(every_item(get_settings().profile, query.wanted))
    return StreamingResponse(lines, media_type="text/csv; charset=utf-8", headers=headers)


class Address:
    """Addresses of this list with something changed; a changed filter begins at the first page."""

    def __init__(self, query: ListQuery) -> None:
        self._kept = {k: v for k, v in query.model_dump().items() if v and k != "after"}

    def __call__(self, path: str = "/models", **changed: str) -> str:
        """The address with these fields in place of the present ones."""
        fields = {k: v for k, v in {**self._kept, **changed}.items() if v}
        return path + (f"?{urlencode(fields, doseq=True)}" if fields else "")


def _counts(session: Session, profile: str, wanted: Wanted, kept: Kept) -> dict[str, int]:
    """Counts by outcome; those that many pages show are kept, those of a search are counted each time."""
    narrowed = wanted._replace(outcome="", sort="downloads", reverse=False)
    count = partial(count_outcomes, session, profile, narrowed)
    is_free = any(getattr(wanted, name) for name in FREE_FIELDS)
    return count() if is_free else kept.get(session, f"outcomes {profile} {narrowed}", count).value  # type: ignore[no-any-return]


def _chips(counts: dict[str, int]) -> dict[str, int]:
    every = sum(n for outcome, n in counts.items() if outcome != WAITING)
    return {"": every, **{name: counts.get(name, 0) for name in labels.OUTCOMES if name}}


def _line(item: dict[str, Any]) -> dict[str, Any]:
    passed = item["outcome"] == "passed"
    shown = ("downloads", "rank", "adapter", "adapter_id", "family")
    return {
        "name": item["model"],
        **{name: item[name] for name in shown},
        "mark": labels.status_mark(item),
        "reason": _reason(item),
        "waiting": item["waiting_candidate"],
        "weights": item["weights"] if passed else None,
        "verified": item["updated_at"],
    }


def _reason(item: dict[str, Any]) -> str:
    if item["outcome"] == "passed":
        return f"stock: {item['stock_reason']}" if item["stock_causes"] and item["adapter_id"] else ""
    return item["reason"] or labels.kind_word(item["kind"])


@router.get("/diagnoses/{number}/reproducer.py")
def get_reproducer(_caller: Reader, number: Annotated[int, Path(ge=1, le=2**31 - 1)]) -> Response:
    """The script that shows one failure on its own. Raises `NotFound` if none was kept."""
    with reading() as session:
        return download(reproducer_of(session, number).encode(), PYTHON, f"reproducer-{number}.py")


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
        "mark": labels.status_mark(model_item(session, row)),
        "verdict": verdict_of(row, runs, adapter_label(session, status.adapter_id) if status else None),
        "snippet": snippet(row.model.name, status.adapter) if passed and status else None,
        "stages": newest_stages(runs),
        "runs": runs,
        "failures": findings(failures, diagnosis),
        "stock_failures": findings(stock, diagnosis),
        "map": op_map(failures or stock),
        "curve": curve_of(diagnosis),
        "unsearched": unsearched_of(diagnosis),
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
