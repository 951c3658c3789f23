"""Candidates before a human sees them: recorded once per digest, judged by the gate, queued or refused."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace
from typing import Any

from sqlalchemy.orm import Session

from agents.drafters.llm.resume import furthest
from agents.types import candidate_from_dict, canonical
from pipeline.database.events import emit
from pipeline.database.insert import insert_or_return
from pipeline.database.unit_of_work import database_now
from pipeline.notices.service import notice
from pipeline.review import repository
from pipeline.review.models import (
    SCRIPTED,
    CandidateCheckpoint,
    CandidateRow,
    CandidateState,
    EvidenceRow,
    PatchRow,
)
from pipeline.review.repository import get_candidate as get_candidate
from pipeline.review.told import INEXACT, is_inexact, told
from pipeline.verification.measurements import EMBEDDING, HALF, WORST_DRAW
from pipeline.verification.policy import current_policy
from pipeline.verification.seeds import HiddenSeeds, draw_hidden_seeds
from pipeline.work.models import Outcome, Run, StageName

CANDIDATE_IDS = "candidate_ids"
JUDGED_AGAIN = (CandidateState.VERIFYING, CandidateState.WAITING, CandidateState.INCONCLUSIVE)
"""States in which a new verdict decides; later ones belong to humans."""


def record_candidates(session: Session, run: Run, drafts: list[dict[str, Any]]) -> list[CandidateRow]:
    """The rows of what a draft run handed back; a digest that exists is linked to this checkpoint, never doubled."""
    rows = [record_candidate(session, data, run) for data in drafts]
    run.measurements = {**run.measurements, CANDIDATE_IDS: [row.id for row in rows]}
    session.flush()
    return rows


def record_candidate(
    session: Session, data: dict[str, Any], run: Run | None, struck_from: CandidateRow | None = None
) -> CandidateRow:
    """The candidate with this content (`Candidate.to_dict()`), made if new. Raises ValueError on a wrong digest."""
    candidate = candidate_from_dict(data)
    now = database_now(session)
    values = {
        "family": candidate.family,
        "profile": candidate.profile,
        "dtype": candidate.dtype,
        "state": CandidateState.VERIFYING.value,
        "scripted": any(patch.model == SCRIPTED for patch in candidate.patches),
        "data": candidate.to_dict(),
        "draft_run_id": run.id if run else None,
        "request_id": run.request_id if run else None,
        "struck_from_id": struck_from.id if struck_from else None,
        "created_at": now,
        "updated_at": now,
    }
    found = insert_or_return(session, CandidateRow, {"digest": candidate.digest}, values)
    row: CandidateRow = found.row
    if found.created:
        session.add_all(_patch_rows(row))
        emit(session, "candidate.drafted", "candidate", row.id, request_id=row.request_id, family=row.family)
    if run is not None:
        link_checkpoint(session, row, run.checkpoint_id)
    return row


def link_checkpoint(session: Session, candidate: CandidateRow, checkpoint_id: int) -> None:
    """Note that the candidate was drafted for this checkpoint."""
    key = {"candidate_id": candidate.id, "checkpoint_id": checkpoint_id}
    insert_or_return(session, CandidateCheckpoint, key, {})
    session.expire(candidate, ["checkpoints"])


def _patch_rows(candidate: CandidateRow) -> list[PatchRow]:
    return [
        PatchRow(
            candidate_id=candidate.id,
            position=position,
            trajectory_id=patch["trajectory"],
            data=patch,
            **{name: patch[name] for name in ("pattern", "drafter", "model", "exactness", "bound")},
        )
        for position, patch in enumerate(candidate.data["patches"], start=1)
    ]


def drafted_by(session: Session, run: Run) -> list[CandidateRow]:
    """The candidates a draft run handed back that are still to be judged."""
    rows = [repository.get_candidate(session, i) for i in run.measurements.get(CANDIDATE_IDS, ())]
    return [row for row in rows if row.state in JUDGED_AGAIN]


def representative_of(session: Session, candidate: CandidateRow) -> int:
    """The checkpoint a candidate is verified on: the one it was first drafted for; of a struck set, the original's."""
    if candidate.draft_run_id is not None:
        return session.get_one(Run, candidate.draft_run_id).checkpoint_id
    if candidate.struck_from_id is not None:
        return representative_of(session, repository.get_candidate(session, candidate.struck_from_id))
    return min(link.checkpoint_id for link in candidate.checkpoints)


def hidden_seeds(session: Session, candidate_id: int, tier: str) -> HiddenSeeds:
    """Seeds for a candidate, drawn now that its digest can be read back from the database.

    Raises `UnknownCandidate` for one that is not stored.
    """
    candidate = repository.get_candidate(session, candidate_id)
    seeds = draw_hidden_seeds(candidate.digest, current_policy().tiers[tier].draws)
    stored, now = candidate.created_at.isoformat(), database_now(session).isoformat()
    return replace(seeds, stored_at=stored, drawn_at=now)


def refused_digests(session: Session, family: str, profile: str) -> dict[str, str]:
    """Digest to reason of everything that must not be drafted again for this family, as drafters may know it."""
    refused = {row.digest: told_reason(row) for row in repository.refused_of_family(session, family, profile)}
    unclear = repository.undecided_of_family(session, family, profile)
    return refused | {row.digest: INEXACT for row in unclear if was_inexact(row)}


def verdict_is_inexact(session: Session, run: Run) -> bool:
    """`was_inexact` of the candidate that a verify run judged."""
    return run.candidate_id is not None and was_inexact(repository.get_candidate(session, run.candidate_id))


def was_inexact(candidate: CandidateRow) -> bool:
    """Whether the size of its error alone kept a candidate from passing, or would have in one of its draws alone.

    Such a verdict is the luck of the draw: it is worth a draft that asks for less error, whatever it says.
    """
    row = next(iter(reversed(candidate.evidence)), None)
    if row is None:
        return False
    most, limit = row.measurements.get(WORST_DRAW), current_policy().limits(EMBEDDING, HALF)["error_ratio_pass"]
    lucky = row.outcome == Outcome.PASSED and most is not None and most > limit
    return lucky or is_inexact(row.evidence.get("verdict", {}).get("reasons") or [])


def told_reason(candidate: CandidateRow) -> str:
    """A human's reason as it is; of the gate's only kind, patch and size of the error, so that no probe is told."""
    if candidate.state != CandidateState.REFUSED:
        return candidate.reason
    row = next((row for row in reversed(candidate.evidence) if row.outcome == Outcome.FAILED), None)
    verdict = row.evidence.get("verdict", {}) if row else {}
    cosine = row.measurements.get("worst_token_cosine") if row else None
    return told(verdict.get("reasons") or [], cosine)


def submissions_used(session: Session, run: Run) -> dict[str, int]:
    """Module class to the final submissions that coding agents made for it in earlier drafts of the same diagnosis.

    Those of this run itself, where it was cut off, are made again when it goes on. A reviewer who asks for changes
    begins a round with submissions of its own.
    """
    if run.parent_run_id is None:
        return {}
    found: Counter[str] = Counter()
    since = repository.round_began(session, run.checkpoint_id, run.profile)
    for steps in repository.drafting_steps(session, run.parent_run_id, run.id, since).values():
        found.update(str(step.get("target")) for step in furthest(steps) if step.get("tool") == "submit")
    return dict(found)


def may_submit(session: Session, run: Run, candidate: CandidateRow) -> bool:
    """True if the candidate is among the first that the diagnosis behind a draft run sends to the gate.

    One that comes later stays stored, with the reason. Safe to call twice.
    """
    limit = current_policy().guards["final_submissions"]
    drafts = repository.drafts_of_diagnosis(session, run.parent_run_id) if run.parent_run_id else [run]
    drafts = _of_its_round(session, run, drafts)
    drafted = dict.fromkeys(i for draft in drafts for i in draft.measurements.get(CANDIDATE_IDS, ()))
    if candidate.id in list(drafted)[:limit]:
        return True
    if candidate.state == CandidateState.VERIFYING and not candidate.evidence:
        candidate.state = CandidateState.INCONCLUSIVE
        candidate.reason = f"Not judged: its diagnosis has used its {limit} final submissions."
        session.flush()
    return False


def rounds_of(session: Session, run: Run) -> int:
    """How often a candidate has been drafted for the run's checkpoint in its environment since changes were asked."""
    drafts = repository.draft_runs(session, run.checkpoint_id, run.profile, run.environment)
    since = repository.round_began(session, run.checkpoint_id, run.profile)
    return sum(since is None or draft.created_at >= since for draft in drafts)


def _of_its_round(session: Session, run: Run, drafts: list[Run]) -> list[Run]:
    """The drafts of the round that `run` belongs to: those before or those after a reviewer asked for changes."""
    since = repository.round_began(session, run.checkpoint_id, run.profile)
    if since is None:
        return drafts
    return [draft for draft in drafts if (draft.created_at >= since) == (run.created_at >= since)]


def take_verdict(session: Session, run: Run) -> bool:
    """Store a verify run's evidence and move the candidate on; True if the gate refused it. Safe to call twice."""
    if run.candidate_id is None:
        return False
    candidate = repository.lock_candidate(session, run.candidate_id)
    evidence = _store_evidence(session, candidate, run)
    if candidate.state not in JUDGED_AGAIN:
        return candidate.state == CandidateState.REFUSED
    candidate.state, candidate.reason = _state_after(run, evidence)
    candidate.updated_at = database_now(session)
    session.flush()
    emit(session, f"candidate.{candidate.state}", "candidate", candidate.id, request_id=candidate.request_id)
    if candidate.state == CandidateState.WAITING:
        notice(session, "candidate.waiting", candidate=candidate.id, family=candidate.family, profile=candidate.profile)
    return candidate.state == CandidateState.REFUSED


def _state_after(run: Run, evidence: EvidenceRow) -> tuple[CandidateState, str]:
    if run.outcome == Outcome.FAILED:
        return CandidateState.REFUSED, run.reason
    if evidence.complete and run.outcome == Outcome.PASSED:
        return CandidateState.WAITING, ""
    return CandidateState.INCONCLUSIVE, run.reason or "The evidence is not complete."


def _store_evidence(session: Session, candidate: CandidateRow, run: Run) -> EvidenceRow:
    content = {
        "candidate_digest": candidate.digest,
        "tier": run.tier,
        "outcome": run.outcome,
        "weights": run.weights,
        "measurements": run.measurements,
        "evidence": run.evidence,
        "artefacts": run.artefacts,
    }
    key = {
        "candidate_id": candidate.id,
        "checkpoint_id": run.checkpoint_id,
        "environment": run.environment,
        "tier": run.tier,
    }
    values = {
        **{name: value for name, value in content.items() if name != "tier"},
        "run_id": run.id,
        "complete": run.outcome == Outcome.PASSED and bool(run.measurements) and run.evidence.get("complete", True),
        "digest": hashlib.sha256(canonical({**content, "environment": run.environment})).hexdigest(),
        "created_at": database_now(session),
    }
    found = insert_or_return(session, EvidenceRow, key, values)
    row: EvidenceRow = found.row
    if not found.created and row.digest != values["digest"]:
        for name, value in values.items():
            setattr(row, name, value)
    session.expire(candidate, ["evidence"])
    return row


def diagnosis_run(session: Session, verify: Run) -> Run | None:
    """The diagnose run that led to this verification; None if nothing was drafted (a struck set)."""
    run: Run | None = verify
    while run is not None and run.stage != StageName.DIAGNOSE:
        run = session.get(Run, run.parent_run_id) if run.parent_run_id else None
    return run


def draft_of(session: Session, candidate: CandidateRow) -> Run | None:
    """The run that drafted a candidate, or the set that it was struck from; None if no run did."""
    while candidate.draft_run_id is None and candidate.struck_from_id is not None:
        candidate = repository.get_candidate(session, candidate.struck_from_id)
    return session.get(Run, candidate.draft_run_id) if candidate.draft_run_id else None
