"""The SPEC document of a stage's child: everything it needs to know, taken from the rows in one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from pipeline.catalogue.entry import CatalogueEntry
from pipeline.database.facts import is_demo
from pipeline.releases.repository import get_adapter
from pipeline.review import candidates, replays
from pipeline.rules.repository import accepted_rules
from pipeline.settings import Settings
from pipeline.sweeps.catalogue import entry_of
from pipeline.sweeps.models import Checkpoint
from pipeline.work import flow
from pipeline.work.environment import environment_of
from pipeline.work.models import Run, StageName


@dataclass(frozen=True)
class Job:
    """One claimed run as plain data: its SPEC without the paths, and what is needed to add them."""

    stage: StageName
    spec: dict[str, Any]
    entry: CatalogueEntry
    local_path: str | None
    request_id: str | None
    environment: str


def job_of(session: Session, run_id: int, settings: Settings) -> Job:
    """The job of a run."""
    run = session.get_one(Run, run_id)
    checkpoint = session.get_one(Checkpoint, run.checkpoint_id)
    spec = {
        "run_id": run.id,
        "stage": run.stage,
        "model": checkpoint.model.name,
        "revision": checkpoint.revision,
        "config": checkpoint.config,
        "family": checkpoint.family,
        "entry": checkpoint.facts,
        "weights": run.weights_mode,
        "profile": run.profile,
        "releases": run.releases_mode,
        "adapter": get_adapter(session, run.adapter_id).manifest if run.adapter_id else None,
        "candidate": candidates.get_candidate(session, run.candidate_id).data if run.candidate_id else None,
        "tier": run.tier,
        "request_id": run.request_id,
        "environment": environment_of(run.profile),
        **_stage_part(session, run, checkpoint, settings),
    }
    stage = StageName(run.stage)
    return Job(stage, spec, entry_of(checkpoint), flow.folder_of(session, run), run.request_id, run.environment)


def _stage_part(session: Session, run: Run, checkpoint: Checkpoint, settings: Settings) -> dict[str, Any]:
    """What only one stage is told. Hidden seeds go to the verification and its replay alone, never to a drafter."""
    if run.stage == StageName.DRAFT:
        return _draft_part(session, run, checkpoint, settings)
    if run.stage == StageName.DIAGNOSE:
        return {"reproducers": settings.reproducers_s > 0, "reproducers_s": settings.reproducers_s}
    if run.stage == StageName.VERIFY and run.candidate_id:
        return {"seeds": candidates.hidden_seeds(session, run.candidate_id, run.tier).to_dict()}
    if run.stage == StageName.REPLAY:
        return replays.spec_of(session, run)
    return {}


def _draft_part(session: Session, run: Run, checkpoint: Checkpoint, settings: Settings) -> dict[str, Any]:
    return {
        "diagnoses": [row.data for row in flow.diagnoses_for(session, run)],
        "rejected": candidates.refused_digests(session, checkpoint.family or "", run.profile),
        "submissions_used": candidates.submissions_used(session, run),
        "drafters": settings.drafters,
        "rules": [row.data["data"] for row in accepted_rules(session, is_demo(session))],
    }
