"""Words, signs and numbers of pages: what a verdict leaves open stands beside it; numbers carry units, dates a zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from api.pages.labels import age, moment, percent, short_number, status_mark

PASSED = {
    "revision": "r", "outcome": "passed", "kind": None, "waiting_candidate": None, "weights": "real", "depth": "full",
    "derived_from": None, "scripted": False, "stale": False,
}  # fmt: skip
FAILED = {**PASSED, "outcome": "failed", "weights": None, "depth": None}


@pytest.mark.parametrize(
    ("item", "sign", "word", "remark"),
    [
        (PASSED, "✓", "passes", "real weights"),
        ({**PASSED, "weights": "synthetic", "depth": "2 of 24 blocks"}, "✓", "passes",
         "synthetic weights, depth 2 of 24 blocks"),
        ({**PASSED, "stale": True}, "✓", "passes", "real weights, stale"),
        ({**PASSED, "derived_from": "a/b", "scripted": True}, "✓", "passes",
         "real weights, as another of its group, scripted, counts in no figure"),
        ({**FAILED, "stale": True}, "✗", "fails", "stale"),
        ({**FAILED, "waiting_candidate": 3}, "◐", "waits for review", ""),
        ({**FAILED, "outcome": "unknown"}, "?", "unknown", ""),
        ({**FAILED, "outcome": "infra"}, "↻", "our fault, will be retried", ""),
        ({**FAILED, "revision": None, "kind": "gated"}, "✗", "left out", "gated"),
        ({**FAILED, "revision": None, "outcome": "not_run"}, "·", "not run yet", ""),
    ],
)  # fmt: skip
def test_a_status_is_a_sign_a_word_and_what_it_does_not_say(
    item: dict[str, Any], sign: str, word: str, remark: str
) -> None:
    mark = status_mark(item)
    assert (mark.sign, mark.word, mark.remark) == (sign, word, remark)


def test_numbers_carry_units_and_moments_a_zone() -> None:
    noon = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
    assert moment(noon) == moment(noon.astimezone(timezone(timedelta(hours=2)))) == "2026-12-01 12:00 UTC"
    assert [age(s) for s in (3.14, 59, 600, 9_000, 2e6)] == [
        "3.1\u202fs", "59\u202fs", "10\u202fmin", "2\u202fh", "23\u202fdays",
    ]  # fmt: skip
    assert [short_number(n) for n in (999, 1_234, 167_000_000)] == ["999", "1.23\u202fk", "167\u202fM"]
    assert percent(1, 3) == "33\u202f%"


def test_what_is_not_known_is_no_number() -> None:
    assert moment(None) == age(None) == percent(0, 0) == "–"
