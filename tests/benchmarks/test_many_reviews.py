"""What reviewers find in a generated database is marked as that of a real one would be."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import select

from benchmarks.many_models import fill
from benchmarks.many_reviews import add_reviews
from pipeline.database import migrate
from pipeline.database.accounts import local_reviewer
from pipeline.database.engine import dispose_engines
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.review.models import SCRIPTED
from pipeline.rules.models import RuleProposal


def test_a_rule_is_marked_as_scripted_where_a_script_drafted_it_and_nowhere_else(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'factory.sqlite3'}"
    migrate.upgrade(url)
    with unit_of_work(url) as session:
        fill(session, 400)
        add_reviews(session, local_reviewer(session))
    with reading(url) as session:
        rules = session.scalars(select(RuleProposal)).all()
        assert {rule.scripted for rule in rules} == {True, False}
        assert [rule.model == SCRIPTED for rule in rules] == [rule.scripted for rule in rules]
    dispose_engines()
