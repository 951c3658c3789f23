"""How many children fit into this machine: a run is claimed only while what is claimed here leaves it room.

Every claimed run counts with what it is expected to need, not with what it has taken so far: a child that has just
begun still grows. The first in line waits for room rather than letting smaller ones pass, so that nothing starves; a
machine on which nothing runs takes whatever comes.
"""

from __future__ import annotations

from pathlib import Path

import psutil
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from pipeline.settings import Settings
from pipeline.sweeps.models import Checkpoint
from pipeline.work.models import Run, RunState, StageName
from pipeline.work.stages import STAGES

SHARE = 0.8
"""The part of the machine that children may fill when no setting says otherwise."""
MARGIN = 1.25
"""A second run of the same kind may need this much more than the first did."""
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
MB = 1024 * 1024


def has_room(session: Session, run_id: int, host: str, settings: Settings) -> bool:
    """True if the run fits beside what this host has claimed. Two workers of a host never ask at the same time."""
    if settings.workers == 1:
        return True
    if session.get_bind().dialect.name == "postgresql":
        session.execute(text("SELECT pg_advisory_xact_lock(:n, hashtext(:host))"), {"n": 1, "host": host})
    claimed = _claimed_here(session, run_id, host)
    if not claimed:
        return True
    needed_mb = expected_mb(session, session.get_one(Run, run_id))
    taken_mb = sum(expected_mb(session, run) for run in claimed)
    return needed_mb + taken_mb <= budget_mb(settings) and needed_mb <= psutil.virtual_memory().available / MB


def _claimed_here(session: Session, run_id: int, host: str) -> list[Run]:
    held = select(Run).where(Run.state == RunState.CLAIMED, Run.lease_owner.startswith(f"{host}:", autoescape=True))
    return list(session.scalars(held.where(Run.id != run_id)))


def expected_mb(session: Session, run: Run) -> float:
    """What a run will need, in MiB: by its last run of this stage and tier, else by the stage and the model's size."""
    stage = STAGES[StageName(run.stage)]
    same = (Run.checkpoint_id == run.checkpoint_id, Run.stage == run.stage, Run.tier == run.tier)
    measured = select(Run.peak_rss_mb).where(*same, Run.peak_rss_mb.is_not(None))
    peak = session.scalar(measured.order_by(Run.id.desc()).limit(1))
    if peak is not None:
        return min(peak * MARGIN, stage.memory_mb)
    parameters = session.get_one(Checkpoint, run.checkpoint_id).facts.get("parameters") or 0
    return min(stage.base_mb + parameters * stage.bytes_per_parameter / MB, stage.memory_mb)


def budget_mb(settings: Settings) -> float:
    """What children of this machine may fill together, in MiB."""
    return settings.memory_mb or SHARE * machine_mb()


def machine_mb() -> float:
    """Memory of this machine or container, in MiB."""
    total = psutil.virtual_memory().total
    limit = CGROUP_LIMIT.read_text().strip() if CGROUP_LIMIT.is_file() else "max"
    return (min(total, int(limit)) if limit.isdecimal() else total) / MB
