"""Evidence that is measured again by the queue: asked for by somebody, done by a worker, its verdict kept as a run.

A replay decides nothing: it says whether the verdict can be had again. The same replay (document, threads, instruction
set, environment) is one run, however often it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline.database.artefacts import read_artefact
from pipeline.errors import NotFound
from pipeline.review.errors import NothingToReplay
from pipeline.review.evidence import document_digest
from pipeline.review.models import EvidenceRow
from pipeline.verification.evidence import EVIDENCE_FORMAT, unpack_evidence
from pipeline.work.environment import environment_digest
from pipeline.work.models import Lane, Run, StageName
from pipeline.work.repository import NewRun, ensure_run

SHARED = ("profile", "weights_mode", "releases_mode")


def ask_for_replay(
    session: Session, number: int, requester: str, *, threads: int = 1, capability: str | None = None
) -> Run:
    """The run that measures this evidence again; its worker writes the verdict into its `measurements`.

    Raises `NotFound` for no such evidence, `NothingToReplay` where no document was kept or it carries nothing to run.
    """
    row = session.get(EvidenceRow, number)
    if row is None:
        raise NotFound(f"There is no evidence {number}.")
    address = _replayable(row)
    like = session.get_one(Run, row.run_id)
    new = NewRun(
        stage=StageName.REPLAY,
        checkpoint_id=row.checkpoint_id,
        tier=row.tier,
        environment=environment_digest(like.profile),
        content=(address, threads, capability),
        candidate_id=row.candidate_id,
        parent_run_id=like.id,
        lane=Lane.REQUEST,
        requester=requester[:64],
        **{name: getattr(like, name) for name in SHARED},
    )
    run: Run = ensure_run(session, new).row
    if not run.evidence:
        run.evidence = {"document": address, "threads": threads, "capability": capability}
        session.flush()
    return run


def _replayable(row: EvidenceRow) -> str:
    address = document_digest(row.artefacts)
    if address is None:
        raise NothingToReplay(f"Of evidence {row.id} no document was kept.")
    document = unpack_evidence(read_artefact(address))
    if document["format"] != EVIDENCE_FORMAT or not document["replay"]:
        raise NothingToReplay(f"Evidence {row.id} (format {document['format']!r}) carries nothing to run again.")
    return address


def spec_of(session: Session, run: Run) -> dict[str, Any]:
    """What the child of a replay is told: the document, hidden seeds included, and how it is to be measured."""
    how = dict(run.evidence)
    return {"document": unpack_evidence(read_artefact(how["document"])), "how": how}


def replays_of(session: Session, rows: Iterable[EvidenceRow]) -> dict[int, list[Run]]:
    """Evidence number to its replays, newest first."""
    wanted = list(rows)
    runs = _replays(session, [row.run_id for row in wanted])
    return {row.id: [run for run in runs if run.parent_run_id == row.run_id] for row in wanted}


def _replays(session: Session, run_ids: Sequence[int]) -> list[Run]:
    query = select(Run).where(Run.parent_run_id.in_(run_ids), Run.stage == StageName.REPLAY)
    return list(session.scalars(query.order_by(Run.id.desc())))


def told(run: Run) -> dict[str, Any]:
    """A replay as pages and programs read it; `outcome` is None until it has ended."""
    measured = run.measurements or {}
    return {
        **{name: getattr(run, name) for name in ("id", "state", "outcome", "reason", "created_at", "finished_at")},
        **{name: run.evidence.get(name) for name in ("threads", "capability")},
        **{name: measured.get(name) for name in ("verdict", "identical", "agrees")},
        **{name: list(measured.get(name) or ()) for name in ("differences", "beyond_tolerance")},
        "other_environment": list(measured.get("environment") or ()),
    }
