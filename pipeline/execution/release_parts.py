"""What a candidate's manifest needs beyond its patches: predicate, recorded digests, dtype policy, length buckets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agents.capture.apply import CODE
from pipeline.diagnosis.patterns import STICK
from pipeline.verification.measurements import Place
from pipeline.verification.probes import ProbeBatch, case_name
from pipeline.verification.verdict import Outcome, Verdict

NOT_OF_DOCUMENTS = ("pattern", "parameters", "exactness", "bound", "digest", "target_digest")


def release_parts(
    model: Any, patches: list[dict[str, Any]], lengths: list[int], documents: Sequence[dict[str, Any]] = ()
) -> dict[str, Any] | None:
    """Parts of the manifest, from the stock model the patches were verified on and the lengths it was verified at.

    The digests bind the manifest to the code of the patches and to the source they replace. Drafted code is released as
    its `documents`, which were verified in its place; None without them, or where they are longer than a manifest.
    """
    from adapters.describe import describe
    from adapters.releases.manifest import MAX_BYTES, record_digests

    released = patches
    if any(p["pattern"] == CODE for p in patches):
        released = [as_documents(patches, documents)]
        if not documents or len(json.dumps(released)) > MAX_BYTES // 2:
            return None
    return {
        "predicate": describe(model),
        "patches": record_digests(model, released),
        "dtype_policy": {"run": dtype_of(patches), "probe": "none"},
        "buckets": sorted({-(-length // STICK) * STICK for length in lengths}),
    }


def counted_lengths(probes: Sequence[ProbeBatch], verdict: Verdict) -> list[int]:
    """Lengths of the texts, in tokens, whose case on the device counted: a void case verifies no length."""
    counted = {c.case for c in verdict.per_case if c.outcome is not Outcome.VOID}
    return [n for probe in probes if case_name(probe, Place.DEVICE) in counted for n in probe.lengths]


def as_documents(patches: list[dict[str, Any]], documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The one patch that a set with drafted code becomes; who drafted it, with which model, and what it cures stay."""
    from adapters.patches.document import ReplayDocuments

    code = next(p for p in patches if p["pattern"] == CODE)
    kept = {k: v for k, v in code.items() if k not in NOT_OF_DOCUMENTS}
    cures = sorted({cure for p in patches for cure in p.get("cures", ())})
    return {**kept, "cures": cures, "pattern": ReplayDocuments.pattern, "parameters": {"documents": list(documents)}}


def dtype_of(patches: Sequence[dict[str, Any]] | None) -> str:
    """The dtype the device runs: what the cast or the documents say; without them, the stock model's, fp32."""
    from adapters.patches.registry import WHOLE

    for patch in patches or ():
        if patch["pattern"] == "P56":
            return str(patch["parameters"]["dtype"])
        if patch["pattern"] == WHOLE:
            return str(patch["parameters"]["documents"][0]["case"]["dtype"])
    return "float32"
