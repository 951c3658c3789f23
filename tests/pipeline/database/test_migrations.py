"""The migrations give exactly the tables of the models, on both databases, from empty."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic import command
from alembic.script import ScriptDirectory

from pipeline.database import migrate
from pipeline.database.errors import SchemaOutdated
from pipeline.settings import Settings


def assert_upgrades_from_empty(url: str) -> None:
    with pytest.raises(SchemaOutdated, match="db upgrade"):
        migrate.require_current(url)
    assert migrate.upgrade(url) == migrate.head_revision()
    assert migrate.differences(url) == []
    command.check(migrate.alembic_config(url))
    migrate.require_current(url)
    assert migrate.upgrade(url) == migrate.head_revision(), "a second upgrade changes nothing"


def test_sqlite_upgrades_from_empty_to_the_models(settings: Settings) -> None:
    assert_upgrades_from_empty(settings.sqlalchemy_url)


@pytest.mark.postgres
def test_postgres_upgrades_from_empty_to_the_models(settings: Settings, empty_postgres_url: str) -> None:
    assert_upgrades_from_empty(empty_postgres_url)


def test_differences_are_seen(settings: Settings) -> None:
    from sqlalchemy import text

    from pipeline.database.unit_of_work import unit_of_work

    migrate.upgrade()
    with unit_of_work() as session:
        session.execute(text("ALTER TABLE models ADD COLUMN surplus INTEGER"))
    assert any("surplus" in line for line in migrate.differences())


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_the_downgrade_leaves_nothing_and_the_upgrade_comes_back(
    kind: str, settings: Settings, request: pytest.FixtureRequest
) -> None:
    url = settings.sqlalchemy_url if kind == "sqlite" else request.getfixturevalue("empty_postgres_url")
    migrate.upgrade(url)
    command.downgrade(migrate.alembic_config(url), "base")
    assert migrate.current_revision(url) is None
    migrate.upgrade(url)
    assert migrate.differences(url) == []


KEPT = "SELECT run_id, state, lane FROM failures JOIN runs ON run_id = runs.id"
FILLED = """
INSERT INTO models (id, name, downloads, created_at) VALUES (1, 'a/one', 5, '2026-11-29 00:00:00');
INSERT INTO checkpoints (id, model_id, revision, facts, created_at) VALUES (1, 1, 'r', '{}', '2026-11-29 00:00:00');
INSERT INTO runs (id, stage, content_key, checkpoint_id, profile, weights_mode, releases_mode, tier, environment,
  priority, state, fence, deliveries, attempts, reason, measurements, evidence, artefacts, versions, created_at)
  VALUES (1, 'capture', 'k', 1, 'p', 'auto', 'bundled', 'sweep', 'e', 0, 'done', 1, 1, 1, '', '{}', '{}', '[]', '{}',
  '2026-11-29 00:00:00');
INSERT INTO failures (run_id, checkpoint_id, kind, op, source, module, place, count, after, message, data)
  VALUES (1, 1, 'layout', 'op', '', '', 'block', 1, false, '', '{}')
"""


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_a_database_of_the_first_release_keeps_its_rows(
    kind: str, settings: Settings, request: pytest.FixtureRequest
) -> None:
    from sqlalchemy import text

    from pipeline.database.engine import dispose_engines
    from pipeline.database.unit_of_work import reading, unit_of_work

    url = settings.sqlalchemy_url if kind == "sqlite" else request.getfixturevalue("empty_postgres_url")
    command.upgrade(migrate.alembic_config(url), "2026_11_29_first")
    with unit_of_work(url) as session:
        for statement in FILLED.split(";"):
            session.execute(text(statement))
    dispose_engines()
    migrate.upgrade(url)
    with reading(url) as session:
        assert session.execute(
            text("SELECT run_id, state, lane FROM failures JOIN runs ON run_id = runs.id")
        ).all() == [(1, "done", 0)]


def test_migrations_have_dated_names() -> None:
    names = [path.name for path in Path(migrate.migrations_folder(), "versions").glob("*.py")]
    assert names
    assert all(name[:4].isdigit() and name[5:7].isdigit() and name[8:10].isdigit() for name in names)


def test_there_is_one_head() -> None:
    """Two migrations that follow the same one stop every upgrade; whoever lands second follows the first."""
    folder = ScriptDirectory(str(migrate.migrations_folder()))
    assert len(folder.get_heads()) == 1
