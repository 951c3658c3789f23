"""The stored fidelity page is what the tests and the profiles give, and contradictions between them are found."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.fidelity import ALL_ERRATA, ROOT, by_fact, problems, short, table

ENTRY = {"modelled": "yes"}
WHOLE = {erratum: {"modelled": "no"} for erratum in ALL_ERRATA}


def test_the_stored_page_is_up_to_date() -> None:
    command = [sys.executable, "-m", "benchmarks.fidelity", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr[-2000:]


def test_tests_and_published_stimuli_are_counted_apart() -> None:
    tests = [("tests/anchors/a.py::t", ("E-17",)), ("tests/sim_backend/b.py::t", ("E-17", "1.6"))]
    assert by_fact(tests) == {"E-17": {"anchors": 1, "tests": 1}, "1.6": {"tests": 1}}


def test_an_erratum_without_an_entry_is_a_problem() -> None:
    assert problems({e: x for e, x in WHOLE.items() if e != "E-17"}, {}) == ["E-17 has no catalogue entry"]


def test_a_modelled_erratum_without_a_test_is_a_problem() -> None:
    assert problems({**WHOLE, "E-17": ENTRY}, {}) == ["E-17 is called modelled and no test names it"]
    assert problems({**WHOLE, "E-17": ENTRY}, {"E-17": {"tests": 1}}) == []


def test_a_test_of_an_unknown_erratum_is_a_problem() -> None:
    assert problems(WHOLE, {"E-99": {"tests": 1}}) == ["a test names the unknown erratum E-99"]


def test_bars_in_cells_do_not_end_them() -> None:
    assert table(("a",), [("|x|",)]).splitlines()[-1] == "| \\|x\\| |"


def test_profiles_are_shown_short() -> None:
    assert short(["profile-2025-11", "profile-2026-04", "profile-ideal"]) == "11 04 ideal"
