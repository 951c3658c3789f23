"""The one profile of this process: free to choose until the device or the compiler first uses it, then fixed."""

from __future__ import annotations

import os
import threading
from typing import Any

from sim_backend.errors import SpyreProfileError
from sim_backend.profiles.load import DEFAULT, load_profile
from sim_backend.profiles.profile import Profile

ENVIRONMENT = "SPYRE_SIM_PROFILE"


class _Process:
    """State of this process: the chosen profile and whether it has been used."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.chosen: Profile | None = None
        self.used = False


_process = _Process()


def use_profile(name: str, overrides: dict[str, Any] | None = None, /, **keywords: Any) -> Profile:
    """Choose the profile of this process, once, before the device is first used.

    Choosing the same profile again is harmless. Raises SpyreProfileError when another one is already in use.
    """
    profile = load_profile(name, {**(overrides or {}), **keywords})
    with _process.lock:
        if _process.used and _process.chosen != profile:
            held = _process.chosen.name if _process.chosen else DEFAULT
            raise SpyreProfileError(
                f"profile {profile.name!r} refused: this process already uses {held!r} "
                "(one profile per process; start a new one)"
            )
        _process.chosen = profile
    return profile


def current_profile() -> Profile:
    """The profile this process has chosen or would use: `use_profile`, then SPYRE_SIM_PROFILE, then the default."""
    with _process.lock:
        if _process.chosen is None:
            _process.chosen = load_profile(os.environ.get(ENVIRONMENT) or DEFAULT)
        return _process.chosen


def active() -> Profile:
    """The current profile, fixed from now on. The device and the compiler call this."""
    profile = current_profile()
    with _process.lock:
        _process.used = True
    return profile
