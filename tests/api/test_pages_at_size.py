"""Pages of an installation with many models: nothing reads them all, and what the database counts is right."""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event, update
from sqlalchemy.orm import Mapper

from api import repository, standing, sweep_rows
from api.cursors import Cursor
from benchmarks.many_models import LONGEST_NAME, OPS, PROFILE, fill
from pipeline.database.engine import dispose_engines
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.settings import Settings
from pipeline.sweeps.comparison import CHANGES, compare_sweeps
from pipeline.sweeps.coverage import coverage
from pipeline.sweeps.models import Checkpoint, Sweep
from pipeline.sweeps.repository import get_sweep
from pipeline.sweeps.service import sweep_report

MODELS = 1_200
MOST_ROWS = 500
"""The document of a page holds no more rows, whatever the database holds."""
PAGES = ("/", "/models", "/models?outcome=failed", f"/models?op={OPS[0]}", "/models?sort=adapter&reverse=yes",
         "/coverage", "/review", "/review/1", "/review?state=all", "/adapters", "/scores", "/audit", "/requests",
         "/ops", "/sweeps", "/sweeps/1", "/sweeps/2", "/sweeps/compare?first=1&second=2")  # fmt: skip


@pytest.fixture(scope="session")
def many_template(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with MODELS models, made once."""
    path = tmp_path_factory.mktemp("many") / template.name
    shutil.copy(template, path)
    with unit_of_work(f"sqlite:///{path}") as session:
        fill(session, MODELS)
    dispose_engines()
    return path


@pytest.fixture
def many(settings: Settings, many_template: Path, app: Any) -> Iterator[TestClient]:
    """A browser of nobody on a copy of it."""
    shutil.copy(many_template, settings.data_dir / many_template.name)
    headers = {"Accept": "text/html"}
    with TestClient(app, base_url="http://127.0.0.1:8000", headers=headers) as client:
        yield client


@pytest.mark.parametrize("path", PAGES)
def test_no_page_reads_every_model(many: TestClient, path: str) -> None:
    loaded: Counter[str] = Counter()

    def count(target: Any, _context: Any) -> None:
        loaded[type(target).__name__] += 1

    event.listen(Mapper, "load", count)
    try:
        page = many.get(path)
    finally:
        event.remove(Mapper, "load", count)
    assert page.status_code == 200
    assert max(loaded.values(), default=0) <= repository.MOST_OF_A_KIND, loaded
    assert page.text.count("<tr") <= MOST_ROWS


def test_the_funnel_the_database_counts_is_the_one_the_command_prints(many: TestClient) -> None:
    with reading() as session:
        for number in (1, 2):
            report, sweep = sweep_report(session, number), get_sweep(session, number)
            assert standing.funnel(session, sweep) == report["funnel"]
            assert standing.executed(session, sweep) == report["executed"]


def test_models_that_follow_another_of_their_group_are_counted_and_shown_as_it(many: TestClient) -> None:
    with unit_of_work() as session:
        session.execute(update(Checkpoint).where(Checkpoint.id % 3 > 0).values(group_key=Checkpoint.family))
        session.execute(update(Sweep).values(weights_mode="synthetic"))
    with reading() as session:
        for number in (1, 2):
            report, sweep = sweep_report(session, number), get_sweep(session, number)
            assert any(row["derived_from"] for row in report["models"])
            assert standing.funnel(session, sweep) == report["funnel"]
            assert [row for _, row in sweep_rows.sweep_page(session, sweep, None, 150)] == report["models"][:150]
        counted = sweep_rows.compare_counts(session, get_sweep(session, 1), get_sweep(session, 2))
        assert counted.counts == compare_sweeps(session, 1, 2)["counts"]


def test_pages_of_a_sweep_are_the_rows_the_command_prints(many: TestClient) -> None:
    with reading() as session:
        report, sweep = sweep_report(session, 2)["models"], get_sweep(session, 2)
        places = [place for place, _ in sweep_rows.sweep_page(session, sweep, None, MODELS + 1)]
        middle = Cursor(sweep_rows.POSITION, places[99], 0)
        pages = [sweep_rows.sweep_page(session, sweep, after, 100) for after in (None, middle)]
    assert [row for page in pages for _, row in page] == report[:200]
    assert places == sorted(places)
    assert len(places) == len(report)


def test_two_sweeps_compared_by_the_database_are_as_the_command_compares_them(many: TestClient) -> None:
    with reading() as session:
        whole = compare_sweeps(session, 1, 2)
        first, second = get_sweep(session, 1), get_sweep(session, 2)
        counted = sweep_rows.compare_counts(session, first, second)
        rows = sweep_rows.compare_page(session, first, second, None, None, MODELS + 1)
        cursor = Cursor(rows[149].change, rows[149].downloads, rows[149].model_id)
        assert sweep_rows.compare_page(session, first, second, None, cursor, 50) == rows[150:200]
        reasons = sweep_rows.reasons_of(session, first, second, rows[:100])
    assert (counted.counts, counted.passing_in_both) == (whole["counts"], whole["passing_in_both"])
    wanted = sorted(whole["models"], key=lambda row: (CHANGES.index(row["change"]), -row["downloads"]))
    assert [(r.change, r.downloads, r.first, r.second) for r in rows] == [
        (row["change"], row["downloads"], row["first"], row["second"]) for row in wanted
    ]
    why = {row["model"]: row["reason"] for row in whole["models"]}
    assert {row.model: reasons[row.model_id] for row in rows[:100]} == {row.model: why[row.model] for row in rows[:100]}


def test_the_last_point_of_coverage_over_time_is_today(many: TestClient) -> None:
    with reading() as session:
        points, figures = standing.coverage_over_time(session, PROFILE), coverage(session, PROFILE)
    assert len(points) > 50
    assert points == sorted(points)
    assert (points[-1].real, points[-1].synthetic) == (figures["passing_real"], figures["passing_synthetic"])
    assert points[-1].real > 0


def exported(many: TestClient, **filters: str) -> list[dict[str, str]]:
    answer = many.get("/models.csv", params=filters)
    assert answer.headers["content-type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(answer.text)))


@pytest.mark.parametrize(
    ("filters", "column", "wanted"),
    [
        ({"weights": "real"}, "weights", {"real"}),
        ({"kind": "layout"}, "kind", {"layout"}),
        ({"stale": "yes"}, "stale", {"True"}),
        ({"op": OPS[3]}, "outcome", {"failed"}),
        ({"outcome": "not_run"}, "outcome", {"not_run"}),
        ({"outcome": "passed", "adapter": "3"}, "outcome", {"passed"}),
        ({"family": "", "q": "QWEN2"}, "outcome", {"passed", "failed", "not_run", "unknown", "infra"}),
    ],
)
def test_what_a_filter_leaves_is_listed_counted_and_exported_alike(
    many: TestClient, filters: dict[str, str], column: str, wanted: set[str]
) -> None:
    rows, page = exported(many, **filters), many.get("/models", params=filters).text
    assert {row[column] for row in rows} <= wanted
    chip = re.search(r'aria-current="true">[^<]*<span>([\d\u202f]+)</span>', page)
    assert chip is not None
    assert int(chip.group(1).replace("\u202f", "")) == len(rows) > 0
    shown = re.findall(r'<td class="name"><a href="/models/[^"]*">([^<]*)</a>', page)
    assert shown == [row["model"] for row in rows[:100]]


def test_pages_by_cursor_show_every_model_once(many: TestClient) -> None:
    seen: list[str] = []
    address = "/models?sort=name&columns=rank"
    while address:
        page = many.get(address).text
        seen += re.findall(r'<td class="name"><a href="/models/[^"]*">([^<]*)</a>', page)
        following = re.search(r'href="([^"]+)" rel="next"', page)
        address = following.group(1).replace("&amp;", "&") if following else ""
        assert not address or "columns=rank" in address
    assert seen == sorted(set(seen))
    assert len(seen) == MODELS
    assert LONGEST_NAME in seen


def test_the_queue_is_in_the_order_of_value_then_age(many: TestClient) -> None:
    page = many.get("/review").text
    numbers = [int(n) for n in re.findall(r'<td class="name"><a href="/review/(\d+)">', page)]
    with reading() as session:
        values = repository.values_of_candidates(session, numbers)
    worth = [values[n].downloads for n in numbers]
    assert len(numbers) == 40
    assert worth == sorted(worth, reverse=True)


def test_what_changed_between_two_listings_is_counted_and_named(many: TestClient) -> None:
    with reading() as session:
        found = standing.catalogue_changes(session)
    assert found is not None
    assert found.counts == {"entered": MODELS // 50, "left": MODELS // 50, "moved": found.counts["moved"]}
    assert [m.now for m in found.shown["entered"]] == [49, 99, 149, 199, 249]
    assert all(m.before != m.now for m in found.shown["moved"])
    assert "24 entered" in many.get("/").text


def test_the_overview_shows_how_things_develop(many: TestClient) -> None:
    page = many.get("/").text
    for heading, figure in (
        ("Where models stop", r"<th scope=\"row\">listed</th>.*?<td class=\"num\">1\u202f\d+</td>"),
        ("Cheapest sets to mend", r"% of the downloads</th>"),
        ("Coverage over time", r"<summary>As a table: \d+ days on which verdicts changed</summary>"),
        ("Families on each device profile", r"<td class=\"h\d\">\d+ of \d+</td>"),
        ("Queue", r"<dt>Last hour</dt><dd>\d+ ended"),
        ("Verifier's error rates", "Not measured"),
        ("Drafters", r"<dt>Cost in all</dt>"),
        ("New this week in the catalogue", r"From listing to verdict"),
    ):
        assert re.search(rf"<h\d>{heading}</h\d>.*?{figure}", page, re.S), heading
