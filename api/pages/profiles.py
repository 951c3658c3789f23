"""Device profiles: the list, one profile, and what differs between two. Read from their files, without torch."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from api.pages.rendering import render
from api.security.identity import Reader
from pipeline.errors import NotFound
from sim_backend.profiles import ALIASES, DEFAULT, Profile, diff, list_profiles, load_profile
from sim_backend.profiles.parameters import parameters_of

router = APIRouter()
Name = Annotated[str, Query(max_length=60)]
SHOWN_CELLS = 8


def find_profile(name: str) -> Profile:
    """The profile of that name or alias. Raises `NotFound`."""
    known = [*list_profiles(), *ALIASES]
    if name not in known:
        raise NotFound(f"Profile {name!r} does not exist: choose one of {', '.join(known)}.")
    return load_profile(name)


@router.get("/profiles")
def show_profiles(request: Request, _caller: Reader) -> Response:
    """Every profile, oldest first."""
    rows = [_summary(load_profile(name)) for name in list_profiles()]
    return render(request, "profiles.html", rows=rows, names=list_profiles(), default=DEFAULT)


@router.get("/profiles/compare")
def compare_profiles(request: Request, _caller: Reader, a: Name, b: Name) -> Response:
    """What differs between two profiles, key by key."""
    first, second = find_profile(a), find_profile(b)
    changes = sorted(diff(first, second).items())
    return render(request, "profile_diff.html", first=first, second=second, changes=changes, names=list_profiles())


@router.get("/profiles/{name}")
def show_profile(request: Request, _caller: Reader, name: str) -> Response:
    """One profile: its defects and every parameter that rests on judgement, with its reason."""
    profile = find_profile(name)
    parameters = parameters_of(profile)
    return render(request, "profile.html", p=_summary(profile), device=profile, parameters=parameters)


def _summary(profile: Profile) -> dict[str, Any]:
    content = profile.to_dict()
    return {
        "name": profile.name,
        "description": content["description"],
        "cut_date": str(content["cut_date"]),
        "digest": profile.digest,
        "ops": len(content["ops"]),
        "cells": Counter(str(text) for text in content["ops"].values()).most_common(SHOWN_CELLS),
        "errata": sorted(profile.errata),
    }
