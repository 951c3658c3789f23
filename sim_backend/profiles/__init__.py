"""Dated device profiles: declarative data, one profile per process."""

from sim_backend.profiles.load import (
    ALIASES,
    DEFAULT,
    SIMULATOR_VERSION,
    diff,
    list_profiles,
    load_profile,
    resolve_alias,
)
from sim_backend.profiles.process import active, current_profile, use_profile
from sim_backend.profiles.profile import Profile, split_op

__all__ = [
    "ALIASES",
    "DEFAULT",
    "SIMULATOR_VERSION",
    "Profile",
    "active",
    "current_profile",
    "diff",
    "list_profiles",
    "load_profile",
    "resolve_alias",
    "split_op",
    "use_profile",
]
