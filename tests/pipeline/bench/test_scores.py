"""Scores are stored in the database and tabled by model; what measured nothing is no row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.bench.run import Result, Spent
from pipeline.bench.score import not_measured, report, scripted
from pipeline.bench.scores import score_table, store_score
from pipeline.database import migrate
from pipeline.database.engine import dispose_engines
from pipeline.database.unit_of_work import reading, unit_of_work

DIGEST = "d" * 64


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    found = f"sqlite:///{tmp_path / 'scores.sqlite3'}"
    migrate.upgrade(found)
    yield found
    dispose_engines()


def made(model: str | None, solved: int, drafter: str = "llm", split: str = "public") -> dict[str, Any]:
    """A report over four tasks of two patterns."""
    results = [
        Result(f"t{n}", f"P0{1 + n % 2}", 1 if n < solved else None, 1, end="patch", spent=Spent(2, 100, None))
        for n in range(4)
    ]
    for result in results:
        result.spent.cost_usd = 0.25
    return report(drafter, model, split, 0, DIGEST, results, 3)


def test_the_newest_score_of_each_model_and_split_is_a_row_best_first(url: str) -> None:
    reports = [made("a", 1), made("b", 2), made("a", 4), made("a", 3, split="fresh"), made(None, 4, "rules")]
    for one in reports:
        with unit_of_work(url) as session:
            store_score(session, one)
    with reading(url) as session:
        rows = score_table(session)
    assert [(r["model"], r["split"], r["solved_at_1"]) for r in rows] == [
        ("a", "public", 4), ("rules", "public", 4), ("a", "fresh", 3), ("b", "public", 2),
    ]  # fmt: skip
    assert (rows[0]["cost_usd"], rows[0]["tasks_digest"], rows[0]["by_pattern"]["P01"]["tasks"]) == (1.0, DIGEST, 2)


def test_what_was_not_measured_is_never_stored(url: str) -> None:
    loop = scripted(made("scripted", 4))
    assert (loop["overall"], loop["loop"]["ends"]) == ("not measured", {"patch": 4})
    assert "by_pattern" not in loop
    for found in (not_measured("llm", "public", "no endpoint is set"), loop):
        with pytest.raises(ValueError, match="not measured"), unit_of_work(url) as session:
            store_score(session, found)
    with reading(url) as session:
        assert score_table(session) == []
