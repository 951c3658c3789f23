"""What a candidate's manifest needs beyond its patches: predicate, recorded digests, dtype policy, length buckets."""

from __future__ import annotations

from typing import Any

from agents.capture.apply import CODE
from pipeline.diagnosis.patterns import STICK


def release_parts(model: Any, patches: list[dict[str, Any]], lengths: list[int]) -> dict[str, Any] | None:
    """Parts of the manifest, from the stock model the patches were verified on and the lengths that were run.

    The digests bind the manifest to the code of the patches and to the source they replace. None for drafted code: the
    library of patches does not run it, so it cannot be released as it is.
    """
    if any(p["pattern"] == CODE for p in patches):
        return None
    from adapters.describe import describe
    from adapters.releases.manifest import record_digests

    dtype = next((p["parameters"]["dtype"] for p in patches if p["pattern"] == "P56"), "float32")
    return {
        "predicate": describe(model),
        "patches": record_digests(model, patches),
        "dtype_policy": {"run": dtype, "probe": "none"},
        "buckets": sorted({-(-length // STICK) * STICK for length in lengths}),
    }
