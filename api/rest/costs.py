"""/costs: what language models cost, in all, per candidate, per model that then passes and per download."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from api.rest import PREFIX
from api.security.identity import Reader
from pipeline.database.unit_of_work import reading
from pipeline.drafting.costs import cost_report

router = APIRouter(prefix=PREFIX, tags=["costs"])


class Spent(BaseModel):
    """Calls and what they cost. `cost_usd` is null if one call's cost is unknown; `charged_usd` is what is held."""

    calls: int
    calls_of_unknown_cost: int
    cost_usd: float | None
    charged_usd: float


class CandidateCost(BaseModel):
    """One candidate's draft. What is not known, or has nothing to be shared by, is null and never 0."""

    candidate: int
    family: str
    state: str
    models: list[str]
    calls: int
    cost_usd: float | None
    charged_usd: float
    models_passing: int
    downloads: int
    per_model_usd: float | None
    per_download_usd: float | None


class Costs(Spent):
    """All calls to language models. Scripted ones cost nothing and are counted apart."""

    by_model: dict[str, Spent]
    candidates: list[CandidateCost]
    models_passing: int
    downloads: int
    per_model_usd: float | None
    per_download_usd: float | None
    scripted_calls: int


@router.get("/costs", response_model=Costs)
def get_costs(_caller: Reader) -> dict[str, Any]:
    """What drafting with language models has cost. Unknown is null, never 0."""
    with reading() as session:
        return cost_report(session)
