"""Device profiles as commands, REST and pages name and show them; read from their files, without torch."""

from __future__ import annotations

from typing import Any

from pipeline.errors import NotFound
from sim_backend.profiles import ALIASES, Profile, list_profiles, load_profile


def find_profile(name: str) -> Profile:
    """The profile of that name or alias. Raises `NotFound`."""
    known = [*list_profiles(), *ALIASES]
    if name not in known:
        raise NotFound(f"Profile {name!r} does not exist: choose one of {', '.join(known)}.")
    return load_profile(name)


def summary(profile: Profile) -> dict[str, Any]:
    """Name, what it is, date, digest."""
    content = profile.content
    return {
        "name": profile.name,
        "description": content["description"],
        "cut_date": str(content["cut_date"]),
        "digest": profile.digest,
    }
