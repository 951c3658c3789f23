"""Device profiles: the list, one profile, and what differs between two. Read from their files, without torch."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from api.pages.labels import plain_value
from api.pages.rendering import render
from api.profiles import details
from api.security.identity import Reader
from pipeline.profiles import find_profile
from sim_backend.profiles import DEFAULT, diff, list_profiles, load_profile
from sim_backend.profiles.parameters import parameters_of

router = APIRouter()
Name = Annotated[str, Query(max_length=60)]


@router.get("/profiles")
def show_profiles(request: Request, _caller: Reader) -> Response:
    """Every profile, oldest first."""
    rows = [details(load_profile(name)) for name in list_profiles()]
    names = list_profiles()
    before = names[max(names.index(DEFAULT) - 1, 0)]
    return render(request, "profiles.html", rows=rows, names=names, default=DEFAULT, before=before)


@router.get("/profiles/compare")
def compare_profiles(request: Request, _caller: Reader, a: Name, b: Name) -> Response:
    """What differs between two profiles, key by key."""
    first, second = find_profile(a), find_profile(b)
    changes = [(key, *told(key, old, new)) for key, (old, new) in sorted(diff(first, second).items())]
    return render(request, "profile_diff.html", first=first, second=second, changes=changes, names=list_profiles())


def told(key: str, a: Any, b: Any) -> tuple[str, str]:
    """Both values of a difference in words; of two lists only what the other one lacks."""
    if isinstance(a, list) and isinstance(b, list):
        return _lacking(a, b), _lacking(b, a)
    return _value(key, a), _value(key, b)


def _lacking(mine: list[Any], other: list[Any]) -> str:
    return ", ".join(plain_value(part) for part in mine if part not in other) or "nothing more"


def _value(key: str, value: Any) -> str:
    if value is None:
        return "–"
    if value == {} and key.startswith("errata."):
        return "on"
    return "none" if value in ({}, [], "") else plain_value(value)


@router.get("/profiles/{name}")
def show_profile(request: Request, _caller: Reader, name: str) -> Response:
    """One profile: its defects and every parameter that rests on judgement, with its reason."""
    profile = find_profile(name)
    parameters = parameters_of(profile)
    return render(request, "profile.html", p=details(profile), device=profile, parameters=parameters)
