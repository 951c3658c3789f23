"""The table people read: one row per model, what stock does, what becomes of it, and a funnel that names what waits."""

from __future__ import annotations

from typing import Any

from pipeline.cli.funnel import cut, funnel_of, next_step, row_of, table_of

FUNNEL = {"listed": 3, "captured": 3, "passed": 1, "waiting": 1, "failed": 1, "unknown": 0, "infra": 0}


def row(**over: Any) -> dict[str, Any]:
    stock = {"outcome": "failed", "causes": 7, "kinds": ["unsupported_dtype", "layout", "x"], "reason": "r"}
    base = {"model": "org/name", "outcome": "passed", "reason": "", "weights": "real", "depth": None}
    return {**base, "adapter": "f v1 (bundled)", "stock": stock, "worst_token_cosine": 0.99812, **over}


def test_a_passing_model_shows_its_causes_and_its_lowest_token_cosine() -> None:
    text = row_of(row())
    assert "name (real weights)" in text
    assert "7 causes, unsupported_dtype, lay" in text
    assert text.endswith("passed, lowest token cosine 0.99812")


def test_what_waits_and_what_failed_say_so() -> None:
    assert row_of(row(outcome="failed", waiting_candidate=4)).endswith("waits for your review (candidate 4)")
    assert row_of(row(outcome="infra", reason="disk full")).endswith("infra: disk full")
    assert "as it is" in row_of(row(adapter=None))
    assert row_of(row(depth="2 of 36")).endswith("depth 2 of 36")


def test_stock_without_a_cause_or_a_run_is_honest() -> None:
    assert " - " in row_of(row(stock=None))
    assert "passed " in row_of(row(stock={"outcome": "passed", "causes": 0, "kinds": [], "reason": ""}))
    assert "1 cause, " in row_of(row(stock={"outcome": "failed", "causes": 1, "kinds": ["layout"], "reason": ""}))
    assert "timed out" in row_of(row(stock={"outcome": "failed", "causes": 0, "kinds": [], "reason": "timed out"}))


def test_the_funnel_is_one_line() -> None:
    assert funnel_of(FUNNEL) == "3 listed > 3 captured > 1 passed · 1 waits for you · 1 failed"
    more = {**FUNNEL, "waiting": 2, "unknown": 1, "infra": 1}
    assert funnel_of(more).endswith("2 wait for you · 1 failed · 1 unknown · 1 our fault, will be retried")


def test_the_next_step_is_the_review_that_waits() -> None:
    report = {"models": [row(), row(waiting_candidate=4)], "funnel": FUNNEL}
    assert next_step(report, "http://h:1") == "Next: open http://h:1/review/4"
    assert next_step({"models": [row()], "funnel": FUNNEL}, "http://h:1") == "Next: open http://h:1"
    assert len(table_of(report)) == 4


def test_long_texts_are_cut() -> None:
    assert cut("x" * 50, 10) == "xxxxxxxx…"
