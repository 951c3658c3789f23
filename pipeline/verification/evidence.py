"""The evidence document: everything the gate measured, as JSON with a digest, and what is needed to replay it.

It carries the whole policy and the day of the verdict, so that the verdict can be given again from the document alone.
Hidden seeds go in only here, that is after the verdict. Stored as compressed canonical JSON. Imports no torch.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from datetime import date
from pathlib import Path
from typing import Any

from agents.types import canonical
from pipeline.errors import BadInput
from pipeline.verification.gate import judge
from pipeline.verification.measurements import Measurements, measurements_from_dict
from pipeline.verification.policy import current_policy, policy_from_dict
from pipeline.verification.seeds import HiddenSeeds
from pipeline.verification.verdict import Verdict

EVIDENCE_FORMAT = 2
EVIDENCE_KIND, EVIDENCE_NAME, EVIDENCE_MEDIA = "evidence", "evidence.json.z", "application/zlib"
LARGEST_DOCUMENT = 32 * 1024 * 1024


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
    calibration report for synthetic weights, else None; `replay` is the stage SPEC that runs it again.
    Raises ValueError if the seeds were drawn for another candidate, or the verdict was given under another policy.
    """
    policy = current_policy()
    if seeds.candidate_digest != candidate:
        raise ValueError(f"seeds were drawn for {seeds.candidate_digest!r}, not for {candidate!r}")
    if verdict.policy_digest != policy.digest:
        raise ValueError(f"the verdict was given under policy {verdict.policy!r}, not {policy.version!r}")
    body = {
        "format": EVIDENCE_FORMAT,
        "gate": policy.version,
        "policy": dict(policy.source),
        "policy_digest": policy.digest,
        "candidate": candidate,
        "checkpoint": checkpoint,
        "environment": environment,
        "seeds": seeds.to_dict(),
        "recipe": recipe,
        "measurements": measurements.to_dict(),
        "verdict": verdict.to_dict(),
        "replay": replay or {},
    }
    return {**body, "digest": evidence_digest(body)}


def evidence_digest(document: dict[str, Any]) -> str:
    """sha256 over the canonical JSON of everything but the digest."""
    return hashlib.sha256(canonical({k: v for k, v in document.items() if k != "digest"})).hexdigest()


def check_evidence(document: dict[str, Any]) -> None:
    """Raises EvidenceChanged unless the digest fits and the stored policy gives the stored verdict document again.

    A document of another format is checked by its digest only.
    """
    if evidence_digest(document) != document.get("digest"):
        raise EvidenceChanged(f"evidence for {document.get('candidate')!r} does not match its digest")
    if document["format"] != EVIDENCE_FORMAT:
        return
    stored = document["verdict"]
    policy, day = policy_from_dict(document["policy"]), date.fromisoformat(stored["judged_on"])
    again = judge(measurements_from_dict(document["measurements"]), stored["tier"], policy, day)
    if again.document() != stored["document"] or str(again.outcome) != stored["outcome"]:
        raise EvidenceChanged(f"the gate says {again.outcome} on evidence stored as {stored['outcome']}")


def pack_evidence(document: dict[str, Any]) -> bytes:
    """The document as compressed canonical JSON: what is stored, under the sha256 of these bytes."""
    return zlib.compress(canonical(document), level=9)


def unpack_evidence(content: bytes) -> dict[str, Any]:
    """The document that `pack_evidence` wrote, checked against its digest and its verdict.

    Raises EvidenceChanged for anything else, without unpacking more than `LARGEST_DOCUMENT` bytes.
    """
    try:
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(content, LARGEST_DOCUMENT)
        document: dict[str, Any] = json.loads(text) if unpacker.eof else {}
    except (zlib.error, ValueError) as error:
        raise EvidenceChanged(f"stored evidence cannot be read: {error}") from error
    if not document:
        raise EvidenceChanged(f"stored evidence is cut or larger than {LARGEST_DOCUMENT} bytes")
    check_evidence(document)
    return document


def leave_evidence(document: dict[str, Any], workdir: Path) -> dict[str, str]:
    """Writes the packed document into a run's folder; returns the entry for `artefacts` of the stage's OUT."""
    (workdir / EVIDENCE_NAME).write_bytes(pack_evidence(document))
    return {"path": EVIDENCE_NAME, "kind": EVIDENCE_KIND, "name": EVIDENCE_NAME, "media_type": EVIDENCE_MEDIA}


def summary_of(document: dict[str, Any]) -> dict[str, Any]:
    """What the database row keeps: all but measurements, policy and seeds, which are in the stored document only."""
    left_out = {"measurements", "policy", "seeds", "replay"}
    return {name: value for name, value in document.items() if name not in left_out}
