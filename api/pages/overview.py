"""The overview: how many models run, what needs a human, what blocks most, and below it how things develop.

Every figure is counted by the database, so that the page costs the same with ten models and with ten thousand.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from sqlalchemy.orm import Session

from api import repository, standing
from api.kept import Kept
from api.pages.charts import coverage_bar, timeline
from api.pages.coverage import heat_map
from api.pages.operations import kept_ranking
from api.pages.rendering import render
from api.rest.bench import unmeasured
from api.security.identity import Reader
from pipeline.bench.scores import score_table
from pipeline.database.unit_of_work import database_now, reading
from pipeline.review.models import CandidateRow
from pipeline.settings import get_settings
from pipeline.sweeps.coverage import coverage
from pipeline.sweeps.models import Sweep
from pipeline.sweeps.repository import list_sweeps
from pipeline.verification.selftest.stored import last_report
from pipeline.work.control import is_paused
from pipeline.work.repository import count_by_state, oldest_claimable_age_s

router = APIRouter()
FUNNEL = {
    "listed": "listed",
    "dropped": "left out, with reasons",
    "inspected": "inspected",
    "captured": "capability known",
    "executed": "executed",
    "passed": "pass",
    "waiting": "wait for review",
    "failed": "fail",
    "unknown": "unknown",
    "infra": "our fault, will be retried",
}
FUNNEL_FILTERS = {"passed": "passed", "waiting": "waiting", "failed": "failed", "unknown": "unknown", "infra": "infra"}
"""Steps of the funnel that the list of models can be narrowed to."""
SHOWN_CANDIDATES, SHOWN_OPS, SHOWN_FAMILIES = 3, 8, 12
HOUR = timedelta(hours=1)


@router.get("/")
def show_overview(request: Request, _caller: Reader) -> Response:
    """The first page."""
    return render(request, "overview.html", **overview(request.app.state.kept))


def overview(kept: Kept) -> dict[str, Any]:
    """Everything the page says. Raises what `reading` does of a database that cannot be read."""
    profile = get_settings().profile
    with reading() as session:
        now = database_now(session)
        return {**_above(session, profile, now, kept), **_below(session, profile, now, kept)}


def _above(session: Session, profile: str, now: datetime, kept: Kept) -> dict[str, Any]:
    """What is seen first."""
    figures = kept.get(session, f"coverage {profile}", lambda: coverage(session, profile)).value
    ops = kept.get(session, f"ops {profile}", lambda: repository.blocking_ops(session, profile, SHOWN_OPS))
    ranked = kept_ranking(session, profile, kept)
    return {
        "figures": figures,
        "passing": figures["passing_real"] + figures["passing_synthetic"],
        "bars": {"models": coverage_bar(figures), "downloads": coverage_bar(figures["by_downloads"])},
        "needs_you": _needs_you(session, now),
        "ops": ops.value,
        "cheapest": ranked.value if ranked else None,
    }


def _below(session: Session, profile: str, now: datetime, kept: Kept) -> dict[str, Any]:
    scores = score_table(session)
    return {
        **_history(session, profile, now, kept),
        "sweep": newest_sweep(session, now, kept),
        "queue": queue_health(session, now),
        "gate": last_report(get_settings().data_dir),
        "scores": scores,
        "unmeasured": unmeasured(scores, get_settings().llm_model),
        "spent": costs(session, now),
    }


def _history(session: Session, profile: str, now: datetime, kept: Kept) -> dict[str, Any]:
    """What looks at every run or listing there was."""
    points = kept.get(session, f"points {profile}", lambda: standing.coverage_over_time(session, profile))
    cells = kept.get(session, "families", lambda: standing.families_by_profile(session))
    news = kept.get(session, "news", lambda: standing.catalogue_changes(session))
    to_verdict = kept.get(session, "to verdict", lambda: standing.listing_to_verdict_s(session, now))
    released = standing.releases(session, profile)
    profiles = sorted({cell.profile for cell in cells.value})
    return {
        "chart": timeline(points.value, released, f"{now:%Y-%m-%d}"),
        "points": points.value,
        "counted_at": points.at,
        "releases": released,
        "profiles": profiles,
        "heat": heat_map(cells.value, profiles, SHOWN_FAMILIES),
        "news": news.value,
        "to_verdict_s": to_verdict.value,
    }


def _needs_you(session: Session, now: datetime) -> dict[str, Any]:
    load = repository.review_load(session)
    best = repository.waiting_by_value(session, SHOWN_CANDIDATES) if load.waiting else []
    candidates = repository.candidates_of(session, [number for number, _ in best])
    return {
        "count": load.waiting,
        "oldest_s": (now - load.oldest).total_seconds() if load.oldest else None,
        "candidates": [_candidate(c, value) for c, (_, value) in zip(candidates, best, strict=True)],
    }


def _candidate(candidate: CandidateRow, value: repository.Value) -> dict[str, Any]:
    names = [link.checkpoint.model.name for link in candidate.checkpoints[:1]]
    name = names[0] if names else candidate.family
    return {"id": candidate.id, "name": name, "value": value, "scripted": candidate.scripted}


def newest_sweep(session: Session, now: datetime, kept: Kept) -> dict[str, Any] | None:
    """The newest sweep with its funnel; of a running one how far it is and how long the rest takes."""
    sweeps = list_sweeps(session, limit=1)
    if not sweeps:
        return None
    sweep = sweeps[0]
    progress, pace = progress_of(session, sweep, now)
    funnel = kept.get(session, f"funnel {sweep.id}", lambda: standing.funnel(session, sweep))
    return {
        "id": sweep.id,
        "state": sweep.state,
        "source": sweep.snapshot.source,
        "created_at": sweep.created_at,
        "finished_at": sweep.finished_at,
        "progress": progress,
        "pace": pace,
        "funnel": funnel_rows(funnel.value),
    }


def progress_of(session: Session, sweep: Sweep, now: datetime) -> tuple[repository.Progress, standing.Pace]:
    """How far a sweep is, and how long the rest takes."""
    progress = repository.sweep_progress(session, sweep.id)
    return progress, standing.pace_of(session, sweep, progress.total - progress.done, now)


def funnel_rows(funnel: Mapping[str, int]) -> list[tuple[str, int, float, str | None]]:
    """Word, count, share of what was listed (in hundredths) and filter for each step of a funnel that has any."""
    listed = max(funnel["listed"], 1)
    return [
        (FUNNEL.get(k, k), v, round(100 * v / listed, 1), FUNNEL_FILTERS.get(k))
        for k, v in funnel.items()
        if v or k == "listed"
    ]


def queue_health(session: Session, now: datetime) -> dict[str, Any]:
    """What waits, since when, and what ended within the last hour."""
    ended = standing.finished_since(session, now - HOUR)
    return {
        "runs": count_by_state(session),
        "oldest_s": oldest_claimable_age_s(session),
        "paused": is_paused(session),
        "ended": sum(ended.values()),
        "faults": ended.get("infra", 0),
        "mean_s": repository.mean_run_s(session),
    }


def costs(session: Session, now: datetime) -> dict[str, standing.Spent]:
    """What drafting was charged: today, in thirty days, in all."""
    days = [f"{now - timedelta(days=n):%Y-%m-%d}" for n in range(30)]
    return {
        "today": standing.spent(session, days[:1]),
        "30 days": standing.spent(session, days),
        "in all": standing.spent(session),
    }
