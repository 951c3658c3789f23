"""Statements that are built once: for the few that every request asks, where building costs more than executing.

A prepared statement holds no value of a request but by `bindparam`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from sqlalchemy import CursorResult, Select
from sqlalchemy.orm import Session


class Prepared:
    """A SELECT of columns, made by `build` at its first use."""

    def __init__(self, build: Callable[[], Select[Any]]) -> None:
        self._build = build

    @cached_property
    def _statement(self) -> Select[Any]:
        return self._build()

    def run(self, session: Session, **values: Any) -> CursorResult[Any]:
        """Execute it with these values for its `bindparam`s, in the transaction of `session`."""
        return session.connection().execute(self._statement, values)
