"""The allowances file is complete: no skip, expected failure or warning ignore lives outside it."""

from __future__ import annotations

import re
from pathlib import Path

from allowances import EXPECTED_FAILURES, SKIP_SITES, WARNING_IGNORES, WARNING_SITES

ROOT = Path(__file__).parents[1]
SKIP = re.compile(r"pytest\.skip\(|mark\.skip|pytest\.skip\)|importorskip")
XFAIL = re.compile(r"mark\.xfail|pytest\.xfail\(")
IGNORE = re.compile(r"simplefilter\(.ignore|filterwarnings\(.ignore|mark\.filterwarnings")


def files_with(pattern: re.Pattern[str]) -> set[str]:
    own = {Path(__file__), ROOT / "tests/allowances.py"}
    found = (p for p in (ROOT / "tests").rglob("*.py") if p not in own and pattern.search(p.read_text()))
    return {str(p.relative_to(ROOT)) for p in found}


def test_every_skip_is_listed_with_its_reason() -> None:
    assert files_with(SKIP) == set(SKIP_SITES)


def test_every_expected_failure_is_listed() -> None:
    assert files_with(XFAIL) == {name.split("::")[0] for name in EXPECTED_FAILURES}


def test_a_warning_ignored_on_one_test_is_listed() -> None:
    assert files_with(IGNORE) == set(WARNING_SITES)


def test_warning_ignores_name_category_and_module() -> None:
    for line in WARNING_IGNORES:
        action, _message, category, *module = (part.strip() for part in line.split(":"))
        assert action == "ignore"
        assert category.startswith("sim_backend.errors.") or all(module)
