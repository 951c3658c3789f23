"""The rate limit counts each caller's writes within a minute, by the database's clock, whichever process counts."""

from __future__ import annotations

import pytest

from pipeline.database.models import RateWindow
from pipeline.database.rates import WINDOW_S, TooManyWrites, count_write
from pipeline.database.unit_of_work import reading, unit_of_work


def write_often(caller: str, times: int, per_minute: int) -> None:
    """So many writes: twice what is allowed and more, for the minute may change on the way."""
    for _ in range(times):
        count_write(caller, per_minute)


def test_more_than_allowed_is_refused_with_the_seconds_to_wait(database: str) -> None:
    for _ in range(3):
        count_write("principal 2", 1_000)
    with pytest.raises(TooManyWrites) as refused:
        write_often("principal 2", 8, per_minute=3)
    assert 0 < (refused.value.retry_after_s or 0) <= WINDOW_S
    count_write("principal 3", 3)


def test_a_new_minute_begins_at_one_and_no_limit_counts_nothing(database: str) -> None:
    with unit_of_work() as session:
        session.add(RateWindow(caller="principal 1", minute=5, count=99))
    count_write("principal 1", 10)
    count_write("principal 9", 0)
    with reading() as session:
        rows = {row.caller: (row.minute > 5, row.count) for row in session.query(RateWindow)}
    assert rows == {"principal 1": (True, 1)}
