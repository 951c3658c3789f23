"""The rate limit: how often one caller may write within a minute, counted in the database by its own clock.

Every API process counts in the same row, so that a second process gives nobody a second allowance.
"""

from __future__ import annotations

from sqlalchemy import case
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from pipeline.database.models import RateWindow
from pipeline.database.unit_of_work import database_now, unit_of_work
from pipeline.errors import FactoryError

WINDOW_S = 60


class TooManyWrites(FactoryError):
    """This caller writes too often."""

    code, status = "rate_limited", 429

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


def count_write(caller: str, per_minute: int) -> None:
    """Count a write of `caller`; `per_minute` 0 counts nothing. Raises `TooManyWrites`, with the seconds to wait."""
    if not per_minute:
        return
    with unit_of_work() as session:
        now_s = database_now(session).timestamp()
        count = _count(session, caller, int(now_s // WINDOW_S))
    if count > per_minute:
        left = WINDOW_S - int(now_s % WINDOW_S)
        raise TooManyWrites(f"At most {per_minute} writes within a minute: come back in {left} s.", left)


def _count(session: Session, caller: str, minute: int) -> int:
    insert = (sqlite.insert if session.get_bind().dialect.name == "sqlite" else postgresql.insert)(RateWindow)
    again = case((RateWindow.minute == minute, RateWindow.count + 1), else_=1)
    statement = insert.values(caller=caller, minute=minute, count=1)
    statement = statement.on_conflict_do_update(index_elements=["caller"], set_={"minute": minute, "count": again})
    return int(session.execute(statement.returning(RateWindow.count)).scalar_one())
