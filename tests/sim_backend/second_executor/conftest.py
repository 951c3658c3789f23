"""Makes the second executor importable as `second_executor`, and chooses profiles without errata for it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sim_backend import numerics
from sim_backend.device import ext
from sim_backend.numerics import Rounding
from sim_backend.profiles import Profile, load_profile

sys.path.insert(0, str(Path(__file__).parents[1]))


@pytest.fixture
def without_errata(use: Callable[..., Profile]) -> Iterator[Callable[..., Profile]]:
    """Choose a profile without errata and limits on stick expressions; E-02 is the accumulation itself and stays."""

    def choose(name: str = "profile-2026-08", overrides: dict[str, Any] | None = None) -> Profile:
        errata = [erratum for erratum in load_profile(name).errata if erratum != "E-02"]
        off = {"errata": dict.fromkeys(errata), "limits.legal_sticks": False}
        profile = use(name, {**off, **(overrides or {})})
        _round(profile)
        return profile

    yield choose
    _round(load_profile())


def _round(profile: Profile) -> None:
    rounding = Rounding[profile.op_rounding.upper()]
    ext.set_op_rounding(rounding)
    numerics.set_op_rounding(rounding)
