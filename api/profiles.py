"""Device profiles as pages and REST show them: more of each than the commands list."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pipeline.profiles import summary
from sim_backend.profiles import Profile

SHOWN_CELLS = 8


def details(profile: Profile) -> dict[str, Any]:
    """Its summary, how many operations it lists, the commonest cells of its table, the defects it has on."""
    ops = profile.to_dict()["ops"]
    return {
        **summary(profile),
        "ops": len(ops),
        "cells": Counter(str(text) for text in ops.values()).most_common(SHOWN_CELLS),
        "errata": sorted(profile.errata),
    }
