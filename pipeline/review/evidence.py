"""Stored evidence: found by its number or its digest, read back from the artefacts, listed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy.orm import Session

from pipeline.database.artefacts import read_artefact
from pipeline.errors import BadInput, NotFound
from pipeline.review import repository
from pipeline.review.models import EvidenceRow
from pipeline.verification.evidence import EVIDENCE_KIND, EVIDENCE_NAME, unpack_evidence

SHORTEST_DIGEST = 8
NEVER_SHOWN = frozenset({"seeds", "replay", "policy"})
"""Parts that pages and the API leave out: hidden seeds, and what only a replay reads."""


def document_digest(artefacts: Iterable[Any]) -> str | None:
    """The address of the evidence document among a run's artefacts; None if it left none."""
    found = (a for a in artefacts if a.get("kind") == EVIDENCE_KIND and a.get("name") == EVIDENCE_NAME)
    return next((str(a["digest"]) for a in found), None)


def shown_document(row: EvidenceRow) -> dict[str, Any]:
    """The row's evidence with the measurements of its stored document, without seeds.

    A document that is no longer there leaves what the row keeps. Raises EvidenceChanged for one that was altered.
    """
    digest = document_digest(row.artefacts)
    try:
        stored = unpack_evidence(read_artefact(digest)) if digest else {}
    except NotFound:
        stored = {}
    return {**row.evidence, **{name: value for name, value in stored.items() if name not in NEVER_SHOWN}}


def find_document(session: Session, which: str) -> tuple[str, dict[str, Any]]:
    """(address, document) of the evidence with this number, or whose address begins so.

    Raises NotFound, BadInput for a digest that is too short or fits several, EvidenceChanged for an altered document.
    """
    digest = _by_number(session, int(which)) if which.isdecimal() and len(which) < SHORTEST_DIGEST else None
    digest = digest or _by_prefix(session, which.lower())
    return digest, unpack_evidence(read_artefact(digest))


def _by_number(session: Session, number: int) -> str:
    row = session.get(EvidenceRow, number)
    digest = document_digest(row.artefacts) if row else None
    if digest is None:
        raise NotFound(f"There is no evidence {number} with a stored document.")
    return digest


def _by_prefix(session: Session, prefix: str) -> str:
    if len(prefix) < SHORTEST_DIGEST:
        raise BadInput(f"{prefix!r} is too short for a digest: give at least {SHORTEST_DIGEST} characters.")
    found = repository.evidence_artefacts(session, prefix)
    if len(found) != 1:
        kind = NotFound if not found else BadInput
        raise kind(f"{len(found)} evidence documents have an address that begins with {prefix!r}.")
    return found[0]


def list_evidence(session: Session) -> list[dict[str, Any]]:
    """Every evidence row, newest first: its number, what it is about, and the address of its document."""
    return [
        {
            "id": row.id,
            "candidate": row.candidate_id,
            "model": row.checkpoint.model.name,
            "tier": row.tier,
            "outcome": row.outcome,
            "weights": row.weights,
            "document": document_digest(row.artefacts),
            "created_at": row.created_at.isoformat(),
        }
        for row in repository.list_evidence(session)
    ]
