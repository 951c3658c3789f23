"""Errors of the database and the data directory.

EnvironmentProblem
├── DatabaseUnavailable   no connection, locked too long, read-only, disk full
├── SchemaOutdated        the tables are not those of this program
└── DataDirUnusable       the data directory cannot be written
TransactionOpen           a programming error: a child run was started inside a transaction
"""

from __future__ import annotations

from pipeline.errors import EnvironmentProblem, FactoryError


class DatabaseUnavailable(EnvironmentProblem):
    """The database cannot be used now."""

    code, status = "database_unavailable", 503


class SchemaOutdated(EnvironmentProblem):
    """The tables are not those this program needs."""

    code, status = "schema_outdated", 503


class DataDirUnusable(EnvironmentProblem):
    """The data directory cannot be made or written."""

    code, status = "data_dir_unusable", 503


class TransactionOpen(FactoryError):
    """A long wait was begun while a transaction was open: it would block every writer."""

    code, status = "transaction_open", 500
