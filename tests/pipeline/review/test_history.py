"""The history of reviews is a chain that shows what was changed past the database's triggers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from pipeline.catalogue.entry import CatalogueEntry
from pipeline.database.accounts import local_reviewer
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.review import repository, service
from pipeline.review.history import FIRST, history_is_whole
from pipeline.review.models import ReviewRow
from pipeline.sweeps.schemas import SweepOptions
from pipeline.sweeps.service import start_sweep


@pytest.fixture
def waiting(database: str, entry: Callable[..., CatalogueEntry], drain: Callable[[], list[int]]) -> None:
    """Three candidates that wait for review, each of a family of its own."""
    kinds = ("bert", "roberta", "mpnet")
    config = {"hidden_size": 64, "num_attention_heads": 2, "hidden_act": "gelu"}
    rows = [entry(f"a/{kind}", n, config={**config, "model_type": kind}) for n, kind in enumerate(kinds, start=1)]
    with unit_of_work() as session:
        start_sweep(session, "test", rows, SweepOptions("profile-2026-08"))
    drain()


@pytest.fixture
def decided(waiting: None) -> list[int]:
    """Three decisions."""
    with unit_of_work() as session:
        for candidate in repository.list_candidates(session):
            service.reject(session, candidate.id, local_reviewer(session), reason="no")
        return list(session.scalars(select(ReviewRow.id).order_by(ReviewRow.id)))


def without_triggers(session: Session, statement: str) -> None:
    """What somebody with the database's password could do, with the triggers put back afterwards."""
    sqlite = session.get_bind().dialect.name == "sqlite"
    if not sqlite:
        session.execute(text("ALTER TABLE reviews DISABLE TRIGGER reviews_append_only"))
        session.execute(text(statement))
        session.execute(text("ALTER TABLE reviews ENABLE TRIGGER reviews_append_only"))
        return
    query = text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'reviews'")
    triggers = session.execute(query).all()
    for name, _ in triggers:
        session.execute(text(f"DROP TRIGGER {name}"))
    session.execute(text(statement))
    for _, sql in triggers:
        session.execute(text(sql))


def test_each_decision_follows_the_one_before(decided: list[int]) -> None:
    with reading() as session:
        rows = [session.get_one(ReviewRow, number) for number in decided]
        assert len(rows) == 3
        assert rows[0].previous_digest == FIRST
        assert all(after.previous_digest == before.digest for before, after in pairwise(rows))
        assert list(history_is_whole(session)) == []


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE reviews SET reason = 'yes' WHERE id = {1}", "changed after it was written, review: {1}"),
        ("UPDATE reviews SET decision = 'approve' WHERE id = {2}", "changed after it was written, review: {2}"),
        ("DELETE FROM reviews WHERE id = {1}", "does not follow the one before, review: {2}"),
        ("UPDATE reviews SET digest = NULL WHERE id = {1}", "changed after it was written, review: {1}"),
    ],
)
def test_a_change_past_the_triggers_is_found(decided: list[int], statement: str, said: str) -> None:
    with unit_of_work() as session:
        without_triggers(session, statement.format(*decided))
    with reading() as session:
        assert said.format(*decided) in list(history_is_whole(session))


def test_missing_triggers_are_found(database: str) -> None:
    with unit_of_work() as session:
        sqlite = session.get_bind().dialect.name == "sqlite"
        name = "reviews_no_delete" if sqlite else "reviews_append_only ON reviews"
        session.execute(text(f"DROP TRIGGER {name}"))
        (said,) = history_is_whole(session)
    assert "triggers missing" in said


def test_what_would_make_most_downloads_pass_is_looked_at_first(waiting: None) -> None:
    with unit_of_work() as session:
        before = [candidate.id for candidate in repository.list_candidates(session)]
        least = session.get_one(repository.CandidateRow, before[-1])
        for status in repository.failing_in_family(session, least.family, least.profile):
            status.checkpoint.model.downloads = 1_000_000_000
        session.flush()
        assert [c.id for c in repository.list_candidates(session)] == [before[-1], *before[:-1]]
        assert [c.id for c in repository.list_candidates(session, None)] == sorted(before)
