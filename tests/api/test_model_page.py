"""What a model's page tells beside its verdict: the error per layer, verdicts of other environments, the same graph."""

from __future__ import annotations

import re
from collections.abc import Callable

from fastapi.testclient import TestClient
from sqlalchemy import select, update

from pipeline.database.unit_of_work import unit_of_work
from pipeline.sweeps.models import CheckpointStatus
from pipeline.work.models import Run, StageName

Sweep = Callable[..., int]
MODEL = "acme/albert-one"
POINTS = [{"block": n, "total": 10.0 ** (n - 4), "total_ideal": 1e-4} for n in (1, 2, 3)]


def test_the_error_per_layer_is_a_picture_with_its_table_and_its_run(sweep: Sweep, browser: TestClient) -> None:
    sweep(MODEL)
    with unit_of_work() as session:
        run = session.scalars(select(Run).where(Run.stage == StageName.DIAGNOSE)).one()
        run.evidence = {**(run.evidence or {}), "curves": {"whole rows": POINTS, "<b>ragged</b>": []}}
        number = run.id
    section = re.search(r'<section id="curve".*?</section>', browser.get(f"/models/{MODEL}").text, re.S)
    assert section is not None
    assert 'role="img"' in section.group()
    assert "<summary>As a table: 3 rows</summary>" in section.group()
    assert '<td class="num">3</td><td class="num">1.0e-01</td><td class="num">1.0e-04</td>' in section.group()
    assert f'<a href="/api/v1/runs/{number}">run {number}</a>' in section.group()
    assert "<b>" not in section.group()


def test_verdicts_of_another_environment_stand_there_and_are_stale(sweep: Sweep, browser: TestClient) -> None:
    sweep("a/bert-stock")
    assert "today" in history_of(browser)
    with unit_of_work() as session:
        session.execute(update(Run).values(environment="e" * 64))
    assert f'<code title="{"e" * 64}">{"e" * 12}…</code> <span class="remark">stale</span>' in history_of(browser)
    assert "today" not in history_of(browser)


def history_of(browser: TestClient) -> str:
    section = re.search(r'<section id="history">.*?</section>', browser.get("/models/a/bert-stock").text, re.S)
    assert section is not None
    return section.group()


def test_checkpoints_with_the_same_graph_lead_to_each_other(sweep: Sweep, browser: TestClient) -> None:
    sweep("a/bert-stock", "b/bert-stock-two", "c/mpnet-stock")
    page = browser.get("/models/a/bert-stock").text
    twins = page[page.index("<h2>Same graph</h2>") :]
    assert '<a href="/models/b/bert-stock-two">' in twins
    assert "c/mpnet-stock" not in twins
    with unit_of_work() as session:
        session.execute(update(CheckpointStatus).values(fingerprint=None))
    assert "Same graph" not in browser.get("/models/a/bert-stock").text
