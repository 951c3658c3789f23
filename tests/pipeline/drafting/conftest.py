"""An installation on SQLite: what drafting stores does not depend on the database."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pipeline.settings import Settings


@pytest.fixture
def sqlite(settings: Settings, sqlite_template: Path) -> Settings:
    """The settings, with a database that has every table."""
    shutil.copy(sqlite_template, settings.data_dir / "factory.sqlite3")
    return settings
