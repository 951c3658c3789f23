"""/capabilities, /diagnoses with their reproducers, /candidates and /evidence, with the forms of their answers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, Field
from sqlalchemy import Select

from api import repository
from api.presentation import reproducer_of, script_in
from api.rest import PREFIX
from api.rest.adapters import PYTHON, download
from api.rest.paging import PageQuery, page_of
from api.rest.schemas import NO_NUL, ProfileName, ProfileQuery, ReviewDetails, ReviewItem, RowId, Strict
from api.security.identity import Reader, Requester
from pipeline.database.facts import is_demo
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.requests.service import requester_name
from pipeline.review import replays
from pipeline.review.evidence import document_digest, shown_document
from pipeline.review.models import CandidateRow, CandidateState, EvidenceRow
from pipeline.review.presentation import details_of, summary_of
from pipeline.review.repository import get_candidate
from pipeline.settings import get_settings
from pipeline.sweeps.capabilities import Capabilities, capabilities
from pipeline.work.models import DiagnosisRow, Outcome

router = APIRouter(prefix=PREFIX, tags=["findings"])
Number = Annotated[int, Path(ge=1, le=2**31 - 1)]
SCRIPT = "text/x-python"


class DiagnosesQuery(PageQuery):
    """Which diagnoses."""

    model: Annotated[str | None, Field(max_length=200, pattern=NO_NUL)] = None
    kind: Annotated[str | None, Field(pattern=r"^[a-z_]{1,32}$")] = None
    op: Annotated[str | None, Field(max_length=120, pattern=NO_NUL)] = None


class DiagnosisItem(BaseModel):
    """A cause of failure: patterns that could cure it, or why none can; `reproducer` where a script was kept."""

    id: int
    run: int
    model: str
    profile: str
    kind: str
    op: str
    no_patch: str | None
    patterns: list[str]
    reproducer: str | None


class Diagnoses(BaseModel):
    """One page of diagnoses, newest first."""

    diagnoses: list[DiagnosisItem]
    next: str | None


class DiagnosisDetails(DiagnosisItem):
    """A diagnosis as it was stored."""

    data: dict[str, Any]


class CandidatesQuery(PageQuery):
    """Which candidates."""

    state: CandidateState | None = None
    family: Annotated[str | None, Field(max_length=64, pattern=NO_NUL)] = None
    profile: ProfileName | None = None


class Candidates(BaseModel):
    """One page of candidates, newest first."""

    candidates: list[ReviewItem]
    next: str | None


class EvidenceQuery(PageQuery):
    """Which evidence."""

    candidate: RowId | None = None
    outcome: Outcome | None = None


class EvidenceItem(BaseModel):
    """What the gate measured for a candidate on a checkpoint. `document` is an artefact, `replay` measures again."""

    id: int
    candidate: int
    run: int
    model: str
    tier: str
    outcome: str
    complete: bool
    weights: str | None
    environment: str
    digest: str
    document: str | None
    replay: str | None
    created_at: datetime


class EvidencePage(BaseModel):
    """One page of evidence, newest first."""

    evidence: list[EvidenceItem]
    next: str | None


class ReplayBody(Strict):
    """How evidence is measured again: its verdict must not depend on it."""

    threads: Annotated[int, Field(ge=1, le=64, description="OpenMP threads.")] = 1
    capability: Annotated[
        Literal["default", "avx2", "avx512"] | None,
        Field(description="ATEN_CPU_CAPABILITY; null is the best there is."),
    ] = None


class Replay(BaseModel):
    """A replay: `outcome` is null until it has ended, `passed` if the same verdict came out and all figures agree."""

    id: int = Field(description="The run that does it.")
    state: str
    outcome: str | None
    reason: str
    threads: int | None
    capability: str | None
    verdict: str | None
    identical: bool | None
    agrees: bool | None
    differences: list[str]
    beyond_tolerance: list[str]
    other_environment: list[str]
    created_at: datetime
    finished_at: datetime | None


class EvidenceDetails(EvidenceItem):
    """Evidence with its measurements and its replays, newest first; hidden seeds are left out."""

    measurements: dict[str, Any]
    shown: dict[str, Any]
    replays: list[Replay]


@router.get("/capabilities", response_model=Capabilities)
def get_capabilities(_caller: Reader, query: Annotated[ProfileQuery, Query()]) -> Capabilities:
    """What a scheduler needs to know of every model with a verdict; the form is `docs/schemas/capabilities-1.json`."""
    with reading() as session:
        found = capabilities(session, [query.profile or get_settings().profile])
        return Capabilities(demo=is_demo(session), capabilities=found)


@router.get("/diagnoses", response_model=Diagnoses)
def list_diagnoses(_caller: Reader, query: Annotated[DiagnosesQuery, Query()]) -> dict[str, Any]:
    """Diagnoses, newest first."""
    with reading() as session:
        chosen = repository.diagnoses_where(query.model, query.kind, query.op)
        page = page_of(session, chosen, DiagnosisRow.id, query, "diagnoses")
        names = repository.models_of_checkpoints(session, [row.checkpoint_id for row in page.rows])
        return {"diagnoses": [_diagnosis(row, names) for row in page.rows], "next": page.next}


@router.get("/diagnoses/{number}", response_model=DiagnosisDetails)
def get_diagnosis(_caller: Reader, number: Number) -> dict[str, Any]:
    """One diagnosis: the failure, where it comes from, and the patterns that could apply."""
    with reading() as session:
        row = repository.get_diagnosis(session, number)
        names = repository.models_of_checkpoints(session, [row.checkpoint_id])
        return {**_diagnosis(row, names), "data": row.data}


@router.get("/diagnoses/{number}/reproducer", response_class=Response, responses={200: {"content": {SCRIPT: {}}}})
def get_reproducer(_caller: Reader, number: Number) -> Response:
    """The script that was run and failed the same way on its own. 404 if none was kept."""
    with reading() as session:
        return download(reproducer_of(session, number).encode(), PYTHON, f"reproducer-{number}.py")


def _diagnosis(row: DiagnosisRow, names: dict[int, str]) -> dict[str, Any]:
    return {
        **{name: getattr(row, name) for name in ("id", "kind", "op", "no_patch")},
        "run": row.run_id,
        "model": names[row.checkpoint_id],
        "profile": row.run.profile,
        "patterns": list(dict.fromkeys(use["pattern"] for use in row.data.get("patterns", ()))),
        "reproducer": f"{PREFIX}/diagnoses/{row.id}/reproducer" if script_in(row) else None,
    }


@router.get("/candidates", response_model=Candidates)
def list_candidates(_caller: Reader, query: Annotated[CandidatesQuery, Query()]) -> dict[str, Any]:
    """Every candidate there was, newest first; those that wait are the queue of `/reviews`."""
    with reading() as session:
        chosen = repository.candidates_where(query.state, query.family, query.profile)
        page = page_of(session, chosen, CandidateRow.id, query, "candidates")
        return {"candidates": [summary_of(row) for row in page.rows], "next": page.next}


@router.get("/candidates/{number}", response_model=ReviewDetails)
def get_one_candidate(_caller: Reader, number: Number) -> dict[str, Any]:
    """One candidate: patches with the steps that led to them, evidence, decisions, what would then pass."""
    with reading() as session:
        return details_of(session, get_candidate(session, number))


@router.get("/evidence", response_model=EvidencePage)
def list_evidence(_caller: Reader, query: Annotated[EvidenceQuery, Query()]) -> dict[str, Any]:
    """Evidence, newest first."""
    with reading() as session:
        chosen: Select[Any] = repository.evidence_where(query.candidate, query.outcome)
        page = page_of(session, chosen, EvidenceRow.id, query, "evidence")
        return {"evidence": [_evidence(row) for row in page.rows], "next": page.next}


@router.get("/evidence/{number}", response_model=EvidenceDetails)
def get_evidence(_caller: Reader, number: Number) -> dict[str, Any]:
    """One piece of evidence with everything that was measured, but the hidden seeds."""
    with reading() as session:
        row = repository.get_evidence(session, number)
        found = [replays.told(run) for run in replays.replays_of(session, [row])[row.id]]
        return {**_evidence(row), "measurements": row.measurements, "shown": shown_document(row), "replays": found}


@router.post("/evidence/{number}/replay", response_model=Replay, status_code=202)
def replay_evidence(caller: Requester, number: Number, body: ReplayBody) -> dict[str, Any]:
    """Measure evidence again, in the queue; the same replay asked for twice is one run. 409 where nothing was kept."""
    who = requester_name(caller.principal_id)
    with unit_of_work() as session:
        run = replays.ask_for_replay(session, number, who, threads=body.threads, capability=body.capability)
        return replays.told(run)


def _evidence(row: EvidenceRow) -> dict[str, Any]:
    document = document_digest(row.artefacts)
    named = ("id", "tier", "outcome", "complete", "weights", "environment", "digest", "created_at")
    return {
        **{name: getattr(row, name) for name in named},
        "candidate": row.candidate_id,
        "run": row.run_id,
        "model": row.checkpoint.model.name,
        "document": document,
        "replay": f"spyre-factory evidence replay {row.id}" if document else None,
    }
