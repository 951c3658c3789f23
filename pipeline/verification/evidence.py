"""The evidence document: everything the gate measured, as JSON with a digest, and what is needed to replay it.

Hidden seeds go in only here, that is after the verdict. Imports no torch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from agents.types import canonical
from pipeline.errors import BadInput
from pipeline.verification.gate import GATE_VERSION, THRESHOLDS, GateException, Tier, Verdict, judge
from pipeline.verification.measurements import Measurements, measurements_from_dict
from pipeline.verification.seeds import HiddenSeeds

EVIDENCE_FORMAT = 1


class EvidenceChanged(BadInput):
    """A stored evidence document is not the one that was written, or does not support its verdict."""

    code, status = "evidence_changed", 422


def evidence_document(
    *,
    candidate: str,
    checkpoint: dict[str, Any],
    environment: dict[str, Any],
    seeds: HiddenSeeds,
    recipe: dict[str, Any] | None,
    measurements: Measurements,
    verdict: Verdict,
    replay: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Plain JSON data with its own `digest` (sha256 over the canonical JSON of the rest).

    `checkpoint` names model, revision, pooling and dtype; `environment` holds versions and digests; `recipe` is the
    calibration report for synthetic weights, else None; `replay` whatever else a rerun needs (profile, tokenizer).
    Raises ValueError if the seeds were drawn for another candidate.
    """
    if seeds.candidate_digest != candidate:
        raise ValueError(f"seeds were drawn for {seeds.candidate_digest!r}, not for {candidate!r}")
    body = {
        "format": EVIDENCE_FORMAT,
        "gate": GATE_VERSION,
        "thresholds": dict(THRESHOLDS),
        "candidate": candidate,
        "checkpoint": checkpoint,
        "environment": environment,
        "seeds": list(seeds.seeds),
        "recipe": recipe,
        "measurements": measurements.to_dict(),
        "verdict": verdict.to_dict(),
        "replay": replay or {},
    }
    return {**body, "digest": evidence_digest(body)}


def evidence_digest(document: dict[str, Any]) -> str:
    """sha256 over the canonical JSON of everything but the digest."""
    return hashlib.sha256(canonical({k: v for k, v in document.items() if k != "digest"})).hexdigest()


def check_evidence(document: dict[str, Any], exceptions: Sequence[GateException] = ()) -> None:
    """Raises EvidenceChanged unless the digest fits and, under the same gate version, the verdict follows again.

    `exceptions` are those that held when the verdict was given.
    """
    if evidence_digest(document) != document.get("digest"):
        raise EvidenceChanged(f"evidence for {document.get('candidate')!r} does not match its digest")
    if document["gate"] != GATE_VERSION:
        return
    stored = document["verdict"]
    again = judge(measurements_from_dict(document["measurements"]), Tier(stored["tier"]), exceptions)
    if str(again.outcome) != stored["outcome"]:
        raise EvidenceChanged(f"the gate says {again.outcome} on evidence stored as {stored['outcome']}")
