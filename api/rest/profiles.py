"""/ops and /profiles, with the forms of their answers."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from api.profiles import details
from api.rest import PREFIX
from api.rest.schemas import ProfileQuery, Strict
from api.security.identity import Reader
from pipeline.database.unit_of_work import reading
from pipeline.profiles import find_profile
from pipeline.ranking.service import ranking
from pipeline.settings import get_settings
from sim_backend.profiles import DEFAULT, diff, list_profiles, load_profile

router = APIRouter(prefix=PREFIX, tags=["profiles"])


class CauseItem(BaseModel):
    """What keeps models from passing: `models` have it, `alone_models` have nothing else and would then pass."""

    kind: str
    op: str
    condition: str
    models: int
    downloads: int
    alone_models: int
    alone_downloads: int


class CauseName(BaseModel):
    """A cause by its name."""

    kind: str
    op: str
    condition: str


class CheapestSetItem(BaseModel):
    """The fewest causes whose mending lets `share` of the blocked downloads pass, and the solver's optimality gap."""

    share: float
    reachable: bool
    causes: list[CauseName]
    kinds: dict[str, int]
    models: int
    downloads: int
    gap: float | None


class FamilyItem(BaseModel):
    """How many checkpoints of a family have a cause at an operation."""

    op: str
    family: str
    models: int


class OpsRanking(BaseModel):
    """Causes by the downloads that would then pass, and the cheapest sets; a model passes when all its causes are."""

    profile: str
    demo: bool
    not_passing: int
    not_passing_downloads: int
    without_causes: int
    ops: list[CauseItem]
    solver: str
    cheapest: list[CheapestSetItem]
    by_family: list[FamilyItem]


class ProfileItem(BaseModel):
    """A device profile."""

    name: str
    description: str
    cut_date: str
    digest: str
    ops: int
    errata: list[str]


class Profiles(BaseModel):
    """Device profiles, oldest first."""

    default: str
    profiles: list[ProfileItem]


class ProfilesQuery(Strict):
    """Two profiles by name or alias."""

    a: Annotated[str, Field(max_length=60, examples=["profile-2026-04"])]
    b: Annotated[str, Field(max_length=60, examples=["latest"])]


class ProfileChange(BaseModel):
    """A key that differs; null where a profile does not have it."""

    key: str
    a: Any
    b: Any


class ProfileDiff(BaseModel):
    """What differs between two profiles."""

    a: str
    b: str
    changes: list[ProfileChange]


@router.get("/ops", response_model=OpsRanking)
def get_ops(_caller: Reader, query: Annotated[ProfileQuery, Query()]) -> dict[str, Any]:
    """What keeps models from passing on a profile, and the cheapest sets of causes to mend next."""
    with reading() as session:
        return ranking(session, query.profile or get_settings().profile)


@router.get("/profiles", response_model=Profiles)
def get_profiles(_caller: Reader) -> dict[str, Any]:
    """The device profiles that ship."""
    return {"default": DEFAULT, "profiles": [details(load_profile(name)) for name in list_profiles()]}


@router.get("/profiles/compare", response_model=ProfileDiff)
def get_profile_diff(_caller: Reader, query: Annotated[ProfilesQuery, Query()]) -> dict[str, Any]:
    """What differs between two profiles, key by key."""
    first, second = find_profile(query.a), find_profile(query.b)
    changes = [{"key": key, "a": a, "b": b} for key, (a, b) in sorted(diff(first, second).items())]
    return {"a": first.name, "b": second.name, "changes": changes}
