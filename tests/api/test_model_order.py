"""The list of models in each of its orders: pages by cursor, rows without a value last, no cursor of another order."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from sqlalchemy import select

from api.cursors import Cursor
from api.errors import BadCursor
from api.model_filter import ORDERS, Sort, Wanted, cursor_of
from api.model_list import count_outcomes, cursor_after, page_of
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.sweeps.models import Model

PROFILE = "profile-2026-08"


@pytest.fixture
def listed(sweep: Any) -> None:
    """Models of every outcome; two share every value but their names, one has no rank."""
    sweep("stock-real/one", "stock/two", "pow/three", "remote/four", "unsure/five", "stock/six")
    with unit_of_work() as session:
        session.scalars(select(Model).where(Model.name == "pow/three")).one().rank = None
        session.scalars(select(Model).where(Model.name == "stock/six")).one().downloads = 500_000


def walk(wanted: Wanted, size: int) -> list[Any]:
    """All rows, read in pages of `size`, each cursor written and read back."""
    rows: list[Any] = []
    after = None
    with reading() as session:
        while page := page_of(session, PROFILE, wanted, after, size):
            rows += page
            after = cursor_of(cursor_after(page[-1], wanted).encode(), wanted)
    return rows


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sort", get_args(Sort))
def test_pages_of_any_size_show_every_model_once_in_order(sort: Sort, reverse: bool) -> None:
    wanted = Wanted(sort=sort, reverse=reverse)
    whole = walk(wanted, 50)
    assert len({row.model for row in whole}) == len(whole) == 6
    for size in (1, 2):
        assert [row.model for row in walk(wanted, size)] == [row.model for row in whole]
    places = [row.place for row in whole]
    known = [place for place in places if place is not None]
    assert known == sorted(known, reverse=ORDERS[sort].falls != reverse)
    assert places[: len(known)] == known


@pytest.mark.usefixtures("listed")
def test_each_filter_counts_what_it_lists() -> None:
    narrowed = [Wanted(), Wanted(weights="synthetic"), Wanted(kind="remote_code"), Wanted(search="stock")]
    narrowed += [Wanted(op="aten.view.default"), Wanted(stale=True), Wanted(supported=True)]
    for wanted in narrowed:
        with reading() as session:
            counts = count_outcomes(session, PROFILE, wanted)
        for outcome, count in counts.items():
            assert len(walk(wanted._replace(outcome=outcome), 3)) == count, (wanted, outcome)


@pytest.mark.parametrize(
    "cursor",
    [
        Cursor("name", "a", 1),
        Cursor("rank reversed", 3, 1),
        Cursor("rank", "three", 1),
        Cursor("rank", -1, 1),
        Cursor("rank", 3, -1),
        Cursor("rank", True, 1),
    ],
)
def test_a_cursor_of_another_list_or_order_is_refused(cursor: Cursor) -> None:
    with pytest.raises(BadCursor):
        cursor_of(cursor.encode(), Wanted(sort="rank"))


@pytest.mark.parametrize("value", ["2026-08-01T00:00:00", "yesterday", "a\0b", 7])
def test_a_moment_in_a_cursor_has_a_zone(value: Any) -> None:
    with pytest.raises(BadCursor):
        cursor_of(Cursor("verified", value, 1).encode(), Wanted(sort="verified"))


def test_a_missing_value_is_no_place_where_every_row_has_one() -> None:
    with pytest.raises(BadCursor):
        cursor_of(Cursor("name", None, 1).encode(), Wanted(sort="name"))
    assert cursor_of(Cursor("rank", None, 1).encode(), Wanted(sort="rank")).value is None
