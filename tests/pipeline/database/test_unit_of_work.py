"""Transactions commit at the end, roll back on errors, and are never open while a child runs."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from pipeline.database.errors import DatabaseUnavailable, SchemaOutdated, TransactionOpen
from pipeline.database.facts import get_fact, is_demo, mark_demo, set_fact
from pipeline.database.insert import insert_or_return
from pipeline.database.models import Principal
from pipeline.database.unit_of_work import after_commit, database_now, reading, unit_of_work
from pipeline.settings import Settings
from pipeline.work.process import run_child


def test_leaving_the_block_commits_and_an_error_rolls_back(database: str) -> None:
    with unit_of_work() as session:
        set_fact(session, "kept", 1)
    with pytest.raises(ZeroDivisionError), unit_of_work() as session:
        set_fact(session, "lost", 1 / 0 if get_fact(session, "kept") else 1)
    with reading() as session:
        assert get_fact(session, "kept") == 1
        assert get_fact(session, "lost") is None


def test_what_a_reader_writes_is_not_kept(database: str) -> None:
    with reading() as session:
        set_fact(session, "sneaked", 1)
    with reading() as session:
        assert get_fact(session, "sneaked") is None


def test_hooks_run_after_the_commit_and_only_then(database: str) -> None:
    seen: list[str] = []
    with unit_of_work() as session:
        after_commit(session, lambda: seen.append("committed"))
        assert seen == []
    with pytest.raises(IntegrityError), unit_of_work() as session:
        undone_after_hook(session, seen)
    assert seen == ["committed"]


def undone_after_hook(session: Session, seen: list[str]) -> None:
    after_commit(session, lambda: seen.append("never"))
    session.add(Principal(kind="robot", name="x", created_at=database_now(session)))
    session.flush()


def test_no_child_starts_inside_a_transaction(database: str) -> None:
    with unit_of_work(), pytest.raises(TransactionOpen):
        run_child([sys.executable, "-c", ""], timeout_s=5, memory_mb=100, env={})


def test_the_clock_is_the_databases_and_in_utc(session: Session) -> None:
    now = database_now(session)
    assert now.tzinfo is UTC
    assert abs(now - datetime.now(UTC)) < timedelta(minutes=5)


def test_a_naive_time_is_refused(session: Session) -> None:
    session.add(Principal(kind="human", name="x", created_at=datetime(2026, 1, 1)))
    with pytest.raises(Exception, match="naive time"):
        session.flush()
    session.rollback()


def test_insert_or_return_makes_one_row(session: Session) -> None:
    values = {"kind": "human", "created_at": database_now(session)}
    first = insert_or_return(session, Principal, {"name": "a"}, values)
    second = insert_or_return(session, Principal, {"name": "a"}, {**values, "kind": "agent"})
    assert (first.created, second.created) == (True, False)
    assert second.row.id == first.row.id
    assert second.row.kind == "human"


def test_foreign_keys_are_enforced(database: str) -> None:
    with pytest.raises(IntegrityError), unit_of_work() as session:
        session.execute(
            text("INSERT INTO principal_roles (principal_id, role, principal_kind) VALUES (999, 'viewer', 'human')")
        )


def test_a_missing_table_is_one_sentence(settings: Settings) -> None:
    with pytest.raises(SchemaOutdated, match="spyre-factory db upgrade"), reading() as session:
        is_demo(session)


def test_an_unreachable_database_is_one_sentence(settings: Settings) -> None:
    url = f"sqlite:///{settings.data_dir / 'no' / 'such' / 'folder.sqlite3'}"
    with pytest.raises(DatabaseUnavailable, match="cannot be used"), reading(url):
        pass


def test_the_demo_mark_stays(database: str) -> None:
    with unit_of_work() as session:
        assert not is_demo(session)
        mark_demo(session, "spine test")
    with reading() as session:
        assert is_demo(session)


def test_sqlite_uses_a_write_ahead_log(settings: Settings) -> None:
    from pipeline.database import migrate

    migrate.upgrade()
    with reading() as session:
        assert session.execute(text("PRAGMA journal_mode")).scalar_one() == "wal"
        assert session.execute(text("PRAGMA foreign_keys")).scalar_one() == 1
    assert Path(settings.data_dir / "factory.sqlite3").exists()
