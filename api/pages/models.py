"""The list of models and a model's own page."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import Field
from sqlalchemy.orm import Session

from api import repository
from api.cursors import decode
from api.pages import labels
from api.pages.rendering import render
from api.pages.verdicts import verdict_of
from api.presentation import current_failures, failure_item, snippet
from api.repository import ModelRow
from api.rest.models import next_cursor
from api.rest.schemas import OutcomeFilter, Strict
from api.security.identity import Reader
from pipeline.database.unit_of_work import reading
from pipeline.review.repository import candidates_of_checkpoint
from pipeline.settings import get_settings
from pipeline.sweeps.repository import get_model, statuses_of_model
from pipeline.sweeps.service import adapter_label
from pipeline.work.models import Run, StageName
from pipeline.work.repository import runs_of_checkpoint

router = APIRouter()
PAGE_ROWS = 100


class ListQuery(Strict):
    """Filters of the page; they live in the address."""

    q: Annotated[str, Field(max_length=200)] = ""
    outcome: OutcomeFilter | Annotated[str, Field(max_length=0)] = ""
    sort: Literal["downloads", "name"] = "downloads"
    after: Annotated[str, Field(max_length=600)] = ""


@router.get("/models")
def show_models(request: Request, _caller: Reader, query: Annotated[ListQuery, Query()]) -> Response:
    """The list, in pages of `PAGE_ROWS`."""
    profile = get_settings().profile
    after = decode(query.after, query.sort) if query.after else None
    how: dict[str, Any] = {"search": query.q.strip(), "outcome": query.outcome or None, "sort": query.sort}
    with reading() as session:
        rows = repository.list_models(session, profile, after=after, limit=PAGE_ROWS + 1, **how)
        shown = [_line(session, row) for row in rows[:PAGE_ROWS]]
        counts = repository.count_outcomes(session, profile)
    following = next_cursor(rows, PAGE_ROWS, query.sort)
    context: dict[str, Any] = {
        "rows": shown,
        "counts": _chips(counts),
        "query": query,
        "address": Address(query),
        "following": following,
    }
    return render(request, "models.html", **context)


class Address:
    """Addresses of this list with something changed; a changed filter begins at the first page."""

    def __init__(self, query: ListQuery) -> None:
        self._kept = {k: v for k, v in query.model_dump().items() if v and k != "after"}

    def __call__(self, **changed: str) -> str:
        """The address with these fields in place of the present ones."""
        fields = {k: v for k, v in {**self._kept, **changed}.items() if v}
        return "/models" + (f"?{urlencode(fields)}" if fields else "")


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
        "tier": status.tier if status else None,
    }


def _reason(row: ModelRow) -> str:
    if row.status is None:
        return (row.entry.dropped_reason if row.entry else None) or ""
    if row.status.outcome == "passed":
        return f"stock: {row.status.stock_reason}" if row.status.stock_causes and row.status.adapter_id else ""
    return row.status.reason or labels.kind_word(row.status.kind)


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
    runs = runs_of_checkpoint(session, status.checkpoint_id, profile) if status else []
    passed = status is not None and status.outcome == "passed"
    failures = current_failures(row, runs)
    return {
        "mark": labels.status_mark(status, row.waiting, row.entry),
        "verdict": verdict_of(row, runs, adapter_label(session, status.adapter_id) if status else None),
        "snippet": snippet(row.model.name, status.adapter) if passed and status else None,
        "stages": newest_stages(runs),
        "runs": runs,
        "failures": failures,
        "stock_failures": [] if failures else stock_failures(runs),
        "measured": next((run for run in runs if run.measurements.get("worst_token_cosine") is not None), None),
        "candidates": candidates_of_checkpoint(session, status.checkpoint_id) if status else [],
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
