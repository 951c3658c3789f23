"""Bring a database to the tables of this program, and say whether it has them. Alembic's configuration is made here."""

from __future__ import annotations

import io
from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.exc import InterfaceError, OperationalError

from pipeline.database.engine import engine_for
from pipeline.database.errors import SchemaOutdated
from pipeline.database.tables import Base
from pipeline.database.unit_of_work import explain
from pipeline.settings import get_settings


def migrations_folder() -> Path:
    """The folder of the shipped migrations: it lies beside the package `pipeline`, installed or not."""
    return Path(__file__).resolve().parents[2] / "migrations"


def alembic_config(url: str) -> Config:
    """Alembic's configuration for `url`; what it prints goes nowhere."""
    config = Config(stdout=io.StringIO(), output_buffer=io.StringIO())
    config.set_main_option("script_location", str(migrations_folder()))
    config.attributes["url"] = url
    return config


def upgrade(url: str | None = None) -> str:
    """Run every missing migration; returns the revision reached. Safe to run twice."""
    target = url or get_settings().sqlalchemy_url
    try:
        command.upgrade(alembic_config(target), "head")
    except (OperationalError, InterfaceError) as error:
        raise explain(error) from error
    return current_revision(target) or ""


def current_revision(url: str | None = None) -> str | None:
    """The revision the database is at; None for an empty one."""
    with engine_for(url).connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def head_revision() -> str:
    """The newest revision this program ships."""
    head = ScriptDirectory(str(migrations_folder())).get_current_head()
    if head is None:
        raise SchemaOutdated("This installation ships no migrations: install it again.")
    return head


def differences(url: str | None = None) -> list[str]:
    """What differs between the database and the models, one line each; empty means none."""
    with engine_for(url).connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return [repr(change) for change in compare_metadata(context, Base.metadata)]


def require_current(url: str | None = None) -> None:
    """Raise `SchemaOutdated` unless the database is at the newest revision."""
    found, wanted = current_revision(url), head_revision()
    if found != wanted:
        raise SchemaOutdated(
            f"The database is at {found or 'nothing'}, this version needs {wanted}: run `spyre-factory db upgrade`."
        )
