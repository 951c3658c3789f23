"""What a reviewer sees of a candidate, as plain data: the same for the command line, the API and the pages."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Session

from pipeline.review import repository
from pipeline.review.evidence import shown_document
from pipeline.review.models import CandidateRow, EvidenceRow, PatchRow, ReviewRow, Trajectory
from pipeline.review.service import seen_digest
from pipeline.review.together import previous_round, same_patches


def summary_of(candidate: CandidateRow) -> dict[str, Any]:
    """One line of the queue. `seen` is the digest a decision must name."""
    return {
        "id": candidate.id,
        "state": candidate.state,
        "family": candidate.family,
        "profile": candidate.profile,
        "dtype": candidate.dtype,
        "digest": candidate.digest,
        "seen": seen_digest(candidate),
        "patches": [patch.pattern for patch in candidate.patches],
        "drafters": sorted({patch.drafter for patch in candidate.patches}),
        "scripted": candidate.scripted,
        "reason": candidate.reason,
        "models": [link.checkpoint.model.name for link in candidate.checkpoints],
        "created_at": candidate.created_at.isoformat(),
    }


def details_of(session: Session, candidate: CandidateRow) -> dict[str, Any]:
    """Everything there is to see: patches, evidence, reviews, and the checkpoints that would then pass."""
    failing = repository.failing_in_family(session, candidate.family, candidate.profile)
    return {
        **summary_of(candidate),
        "patches": [_patch(session, patch) for patch in candidate.patches],
        "evidence": [_evidence(row) for row in candidate.evidence],
        "reviews": [_review(row) for row in candidate.reviews],
        "would_then_pass": [
            {"model": s.checkpoint.model.name, "downloads": s.checkpoint.model.downloads} for s in failing
        ],
        "claimed_until": candidate.claim_expires_at.isoformat() if candidate.claim_expires_at else None,
        "struck_from": candidate.struck_from_id,
        "same_patches": [
            {"id": row.id, "family": row.family, "seen": seen_digest(row)} for row in same_patches(session, candidate)
        ],
        "previous_round": previous_round(session, candidate),
    }


def _patch(session: Session, patch: PatchRow) -> dict[str, Any]:
    trajectory = repository.get_trajectory(session, patch.trajectory_id) if patch.trajectory_id else None
    return {**patch.data, "position": patch.position, "steps": _steps(trajectory)}


def _steps(trajectory: Trajectory | None) -> list[dict[str, Any]]:
    return [step.data for step in trajectory.steps] if trajectory else []


def _evidence(row: EvidenceRow) -> dict[str, Any]:
    named = ("id", "tier", "outcome", "complete", "weights", "measurements", "artefacts", "digest", "environment")
    plain = {name: getattr(row, name) for name in named}
    return {"model": row.checkpoint.model.name, "run": row.run_id, **plain, "evidence": shown_document(row)}


def _review(row: ReviewRow) -> dict[str, Any]:
    return {
        "decision": row.decision,
        "reason": row.reason,
        "candidate_digest": row.candidate_digest,
        "evidence_digest": row.evidence_digest,
        "at": row.created_at.isoformat(),
    }
