"""Device profiles as pages and REST show them; read from their files, without torch."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pipeline.errors import NotFound
from sim_backend.profiles import ALIASES, Profile, list_profiles, load_profile

SHOWN_CELLS = 8


def find_profile(name: str) -> Profile:
    """The profile of that name or alias. Raises `NotFound`."""
    known = [*list_profiles(), *ALIASES]
    if name not in known:
        raise NotFound(f"Profile {name!r} does not exist: choose one of {', '.join(known)}.")
    return load_profile(name)


def summary(profile: Profile) -> dict[str, Any]:
    """Name, date, digest, how many operations it lists, the commonest cells of its table, the defects it has on."""
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
