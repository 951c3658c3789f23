"""The review queue, a candidate's page, and decisions by form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Form, Path, Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import Field
from sqlalchemy.orm import Session

from api import repository, standing
from api.pages.evidence import evidence_view
from api.pages.patch_code import applied_code, forward_of_model, stock_functions
from api.pages.rendering import render
from api.pages.rounds import set_diff
from api.pages.sources import document_lines, pattern_source
from api.rest.schemas import ReviewsQuery, Strict
from api.security.identity import Caller, Decider, Reader, Requester, check_form, principal_of
from pipeline.database.models import Principal
from pipeline.database.unit_of_work import database_now, reading, unit_of_work
from pipeline.errors import NotFound
from pipeline.requests.service import requester_name
from pipeline.review import replays, service
from pipeline.review.models import CandidateRow, CandidateState
from pipeline.review.presentation import details_of, summary_of
from pipeline.review.repository import get_candidate

router = APIRouter()
Number = Annotated[int, Path(ge=1, le=2**31 - 1)]
SHOWN = 400
"""Rows of the queue: a page never holds more."""


class DecisionForm(Strict):
    """What a decision form sends. `seen` is the digest of the page that was read."""

    csrf: Annotated[str, Field(max_length=200)] = ""
    seen: Annotated[str, Field(max_length=64)] = ""
    reason: Annotated[str, Field(max_length=4_000)] = ""
    position: Annotated[int, Field(ge=1, le=1_000)] = 1


class ReplayForm(Strict):
    """What the button of a replay sends."""

    csrf: Annotated[str, Field(max_length=200)] = ""
    threads: Annotated[int, Field(ge=1, le=64)] = 1


@router.get("/review")
def show_queue(request: Request, _caller: Reader, query: Annotated[ReviewsQuery, Query()]) -> Response:
    """What waits, most downloads that would then pass first, then the oldest; or every candidate there was."""
    with reading() as session:
        now = database_now(session)
        is_all = query.state == "all"
        found = repository.newest_candidates(session, SHOWN) if is_all else repository.waiting_by_value(session, SHOWN)
        candidates = repository.candidates_of(session, [number for number, _ in found])
        rows = [_row(session, c, now, value) for c, (_, value) in zip(candidates, found, strict=True)]
    return render(request, "queue.html", rows=rows, state=query.state)


def _row(session: Session, candidate: CandidateRow, now: datetime, value: repository.Value) -> dict[str, Any]:
    """One line of the queue: evidence documents are read on the candidate's own page only."""
    outcomes = Counter(row.outcome for row in candidate.evidence if row.complete)
    return {
        **summary_of(candidate),
        "value": value,
        "age_s": (now - candidate.updated_at).total_seconds(),
        "claimed_by": repository.claimant(session, candidate, now),
        "evidence": outcomes,
    }


def _line(session: Session, candidate: CandidateRow, now: datetime) -> dict[str, Any]:
    details = details_of(session, candidate)
    return {
        **details,
        "downloads": sum(item["downloads"] for item in details["would_then_pass"]),
        "age_s": (now - candidate.updated_at).total_seconds(),
        "claimed_by": repository.claimant(session, candidate, now),
        "cost": standing.spent_on_candidate(session, candidate),
    }


@router.get("/review/{number}")
def show_candidate(request: Request, caller: Reader, number: Number) -> Response:
    """Everything a reviewer needs to decide, and the forms to do it."""
    with reading() as session:
        candidate = get_candidate(session, number)
        line = _line(session, candidate, database_now(session))
        causes = repository.diagnoses_of_candidate(session, candidate)
        config = next((link.checkpoint.config for link in candidate.checkpoints), None)
        line["patches"] = [patch_view(patch, causes, config) for patch in line["patches"]]
        again = replays.replays_of(session, candidate.evidence)
        line["evidence"] = [
            {**evidence_view(found), "replays": [replays.told(run) for run in again[found["id"]]]}
            for found in line["evidence"]
        ]
        decisions = repository.decisions(session, candidate)
        adapter = repository.adapter_of_candidate(session, number)
        before = repository.round_before(session, candidate)
        last_round = (before, set_diff(before.data, candidate.data)) if before else None
    mine = line["claimed_by"] in (None, caller.name)
    is_open = line["state"] == CandidateState.WAITING and mine
    context: dict[str, Any] = {
        "decisions": decisions,
        "is_open": is_open,
        "mine": mine,
        "adapter": adapter,
        "last_round": last_round,
    }
    return render(request, "candidate.html", candidate=line, **context)


def patch_view(patch: dict[str, Any], causes: list[dict[str, Any]], config: dict[str, Any] | None) -> dict[str, Any]:
    """A patch with both sides of its diff: the stock code it is about, and what runs instead."""
    parameters = patch.get("parameters") or {}
    mine = [c["failure"] for c in causes if any(use["pattern"] == patch["pattern"] for use in c["patterns"])]
    library = pattern_source(patch["pattern"], parameters)
    written = _written(parameters)
    hidden = {name for name, lines in written.items() if lines}
    stock = stock_functions(failure.get("source", "") for failure in mine)
    return {
        **patch,
        "causes": mine,
        "stock": stock,
        "whole": None if stock else forward_of_model(config),
        "written": next((lines for lines in written.values() if lines), []),
        "applied": applied_code(library.path, library.name) if library else [],
        "shown_parameters": {name: value for name, value in parameters.items() if name not in hidden},
        "library": library,
        "captured_from": patch.get("source") or "",
    }


def _written(parameters: dict[str, Any]) -> dict[str, list[str]]:
    """The parameters that are code, line by line: an operator document, or drafted Python."""
    source = parameters.get("source")
    lines = source.splitlines() if isinstance(source, str) else []
    return {"document": document_lines(parameters.get("document")), "source": lines}


@router.post("/evidence/{number}/replay")
def replay_evidence(
    request: Request, caller: Requester, number: Number, form: Annotated[ReplayForm, Form()]
) -> Response:
    """Have evidence measured again; then the candidate's page shows the replay beside it."""
    check_form(request, caller, form.csrf)
    with unit_of_work() as session:
        run = replays.ask_for_replay(session, number, requester_name(caller.principal_id), threads=form.threads)
        candidate = run.candidate_id
    return RedirectResponse(f"/review/{candidate}#evidence-{number}", 303)


Decision = Callable[[Session, int, Principal, DecisionForm], Any]
DECISIONS: dict[str, Decision] = {
    "claim": lambda s, n, who, form: service.claim(s, n, who),
    "approve": lambda s, n, who, form: service.approve(s, n, who, seen=form.seen, reason=form.reason),
    "reject": lambda s, n, who, form: service.reject(s, n, who, reason=form.reason),
    "changes": lambda s, n, who, form: service.request_changes(s, n, who, reason=form.reason),
    "strike": lambda s, n, who, form: service.strike(s, n, who, position=form.position, reason=form.reason),
}


@router.post("/review/{number}/{decision}")
def decide(
    request: Request, caller: Decider, number: Number, decision: str, form: Annotated[DecisionForm, Form()]
) -> Response:
    """Take a decision; then the candidate's page shows what came of it."""
    check_form(request, caller, form.csrf)
    if decision not in DECISIONS:
        raise NotFound(f"There is no decision {decision!r}.")
    result = _decided(caller, number, decision, form)
    shown = result.id if decision == "strike" else number
    return RedirectResponse(f"/review/{shown}", 303)


def _decided(caller: Caller, number: int, decision: str, form: DecisionForm) -> Any:
    with unit_of_work() as session:
        return DECISIONS[decision](session, number, principal_of(session, caller), form)
