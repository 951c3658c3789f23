"""/bench: the score table of the drafters, with the forms of its answer."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from api.rest import PREFIX
from api.security.identity import Reader
from pipeline.bench.scores import LANGUAGE, NOT_MEASURED, score_table
from pipeline.database.unit_of_work import reading
from pipeline.settings import get_settings

router = APIRouter(prefix=PREFIX, tags=["bench"])


class Figures(BaseModel):
    """What a drafter solved: at its first candidate and within `k`, each with a 95 % interval, and what it used.

    `cost_usd` is null where the endpoint's price is not known. `largest_cost_ratio` is simulated time over that of the
    best known form, null where no task can be priced.
    """

    tasks: int
    solved_at_1: int
    share_at_1: float
    interval_at_1: tuple[float, float]
    k: int
    solved_at_k: int
    share_at_k: float
    interval_at_k: tuple[float, float]
    turns: int
    tokens: int
    cost_usd: float | None
    median_draft_seconds: float
    median_judge_seconds: float
    largest_cost_ratio: float | None
    solved_with_proof: int


class Score(Figures):
    """The newest score of a model on a split. Scores are comparable where `tasks_digest` is the same."""

    model: str
    drafter: str
    split: str
    seed: int | None
    tasks_digest: str
    at: datetime
    by_pattern: dict[str, Figures]


class NotMeasured(BaseModel):
    """A drafter without a score, and why: that is no score of 0."""

    drafter: str
    model: str
    reason: str


class ScoreTable(BaseModel):
    """Scores by model, best first, and who has none."""

    scores: list[Score]
    not_measured: list[NotMeasured]


@router.get("/bench", response_model=ScoreTable)
def get_bench(_caller: Reader) -> dict[str, Any]:
    """The score table of the drafting bench: the newest score of each model."""
    with reading() as session:
        scores = score_table(session)
    return {"scores": scores, "not_measured": unmeasured(scores, get_settings().llm_model)}


def unmeasured(scores: list[dict[str, Any]], model: str | None) -> list[dict[str, Any]]:
    """The configured language model, or that there is none, if no score of it is stored."""
    if any(s["drafter"] == LANGUAGE and (model is None or s["model"] == model) for s in scores):
        return []
    reason = "no endpoint is set" if model is None else "no run of the bench is stored"
    return [{"drafter": LANGUAGE, "model": model or NOT_MEASURED, "reason": reason}]
