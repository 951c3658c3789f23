"""An installation on SQLite: what drafting stores does not depend on the database."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.database.unit_of_work import reading
from pipeline.settings import Settings
from pipeline.work.models import Run


@pytest.fixture
def sqlite(settings: Settings, sqlite_template: Path) -> Settings:
    """The settings, with a database that has every table."""
    shutil.copy(sqlite_template, settings.data_dir / "factory.sqlite3")
    return settings


@pytest.fixture
def run_id(sqlite: Settings, sweep_of: Callable[..., int]) -> int:
    """The number of a run that a draft can be stored for."""
    sweep_of("a/one")
    with reading() as session:
        run = session.query(Run).first()
        assert run is not None
        return run.id
