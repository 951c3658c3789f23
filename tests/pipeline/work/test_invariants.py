"""The invariants hold after real work, and each is broken by what it is there to find."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete, text, update
from sqlalchemy.orm import Session

from pipeline.database.accounts import local_reviewer
from pipeline.database.models import Artefact, OutboxEvent
from pipeline.database.unit_of_work import database_now, reading, unit_of_work
from pipeline.releases.models import Adapter
from pipeline.review.candidates import get_candidate
from pipeline.review.models import BudgetEntry, EvidenceRow, ReviewRow, Trajectory
from pipeline.review.service import approve, seen_digest
from pipeline.sweeps.models import CatalogueSnapshot, CheckpointStatus, SweepRun
from pipeline.sweeps.service import close_finished
from pipeline.work.invariants import broken, violations
from pipeline.work.models import Run


@pytest.fixture
def worked(database: str, sweep_of: Callable[..., int], drain: Callable[[], list[int]]) -> None:
    """A catalogue that was swept, a candidate that was released, and the runs it caused."""
    sweep_of("a/one", "a/stock-two", "a/remote-three")
    drain()
    with unit_of_work() as session:
        approve(session, 1, local_reviewer(session), seen=seen_digest(get_candidate(session, 1)), reason="ok")
    drain()
    with unit_of_work() as session:
        close_finished(session)


def names(*, at_rest: bool = True) -> set[str]:
    with reading() as session:
        return {sentence.split(":")[0] for sentence in broken(violations(session, at_rest=at_rest))}


def test_they_hold_after_a_sweep_and_a_release(worked: None) -> None:
    with reading() as session:
        assert broken(violations(session, at_rest=True)) == []


def spend(session: Session) -> None:
    now = database_now(session)
    session.add(Trajectory(id="t", run_id=1, model="m", cost_usd=2.0, created_at=now))
    session.add(BudgetEntry(day="2026-11-30", purpose="m", run_id=1, reserved_usd=3.0, settled_usd=1.0, created_at=now))
    session.flush()


def lose_a_lease(session: Session) -> None:
    old = database_now(session) - timedelta(hours=1)
    values: dict[str, Any] = {"state": "claimed", "outcome": None, "lease_owner": "w", "lease_expires_at": old}
    session.execute(update(Run).where(Run.id == 1).values(**values))


def release_again(session: Session) -> None:
    first = session.query(Adapter).filter(Adapter.candidate_id.is_not(None)).one()
    values = {c.key: getattr(first, c.key) for c in Adapter.__table__.columns if c.key not in ("id", "version")}
    session.add(Adapter(**{**values, "version": first.version + 1, "digest": "0" * 64}))
    session.flush()


def change_history(session: Session) -> None:
    """What only the owner of the database can do: the triggers are taken away first."""
    sqlite = session.get_bind().dialect.name == "sqlite"
    session.execute(text("DROP TRIGGER reviews_no_update" if sqlite else "DROP TRIGGER reviews_append_only ON reviews"))
    session.execute(update(ReviewRow).values(decision="reject"))


def change_manifest(session: Session) -> None:
    adapter = session.query(Adapter).filter(Adapter.candidate_id.is_not(None)).one()
    adapter.manifest = {**adapter.manifest, "patches": []}


NUMBERS = Artefact.kind == "evidence"
BREAKS: dict[str, tuple[str, Callable[[Session], object]]] = {
    "a forgotten model": ("no_model_is_lost", lambda s: s.execute(delete(SweepRun))),
    "a missing entry": ("no_model_is_lost", lambda s: s.execute(update(CatalogueSnapshot).values(listed=99))),
    "a gap": ("no_effect_twice", lambda s: s.execute(delete(OutboxEvent).where(OutboxEvent.number == 1))),
    "two releases": ("no_effect_twice", release_again),
    "a lost lease": ("every_run_ends", lose_a_lease),
    "a run that waits": ("every_run_ends", lambda s: s.execute(update(Run).values(state="queued", outcome=None))),
    "no outcome": ("every_run_ends", lambda s: s.execute(update(Run).values(outcome=None))),
    "no evidence": ("no_pass_without_evidence", lambda s: s.execute(update(EvidenceRow).values(complete=False))),
    "no approval": ("no_pass_without_evidence", change_history),
    "a changed review": ("history_is_whole", change_history),
    "another manifest": ("adapters_are_what_was_released", change_manifest),
    "no measurement": ("no_pass_without_evidence", lambda s: s.execute(update(Run).values(measurements={}))),
    "no artefact": (
        "no_pass_without_evidence",
        lambda s: s.execute(delete(Artefact).where(Artefact.kind == "evidence")),
    ),
    "an uncharged cost": ("costs_are_charged", spend),
    "no reason": ("the_dashboard_says_what_is_wrong", lambda s: s.execute(update(Run).values(reason=""))),
    "another outcome": (
        "the_dashboard_says_what_is_wrong",
        lambda s: s.execute(update(CheckpointStatus).values(outcome="infra")),
    ),
    "no status": ("the_dashboard_says_what_is_wrong", lambda s: s.execute(delete(CheckpointStatus))),
}


@pytest.mark.parametrize("how", sorted(BREAKS))
def test_each_finds_what_it_is_there_for(how: str, worked: None) -> None:
    name, spoil = BREAKS[how]
    with unit_of_work() as session:
        spoil(session)
    assert name in names(at_rest=how == "a run that waits")
