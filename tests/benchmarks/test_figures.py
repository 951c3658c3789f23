"""A figure is the median of its samples, and a missed target is said."""

from __future__ import annotations

import json

import pytest

from benchmarks.figures import Figure, main, median_figure, render


def test_a_figure_is_the_median_of_its_samples() -> None:
    assert median_figure("forward", [3.0, 1.0, 9.0], "x", 2.0) == Figure("forward", 3.0, "x", 2.0, (3.0, 1.0, 9.0))


def test_a_missed_target_is_said() -> None:
    figures = [Figure("near", 1.0, "s", 1.0), Figure("far", 1.1, "s", 1.0)]
    assert [f.met for f in figures] == [True, False]
    near, far = render(figures, as_json=False).splitlines()
    assert near.endswith(" met")
    assert far.endswith("NOT MET")


def test_a_target_can_be_a_least_and_what_was_not_measured_meets_none() -> None:
    figures = [Figure("share", 0.96, "", 0.95, at_least=True), Figure("share", 0.94, "", 0.95, at_least=True)]
    assert [f.met for f in figures] == [True, False]
    unmeasured = Figure("share", None, "", 0.0)
    assert not unmeasured.met
    assert "not measured" in render([unmeasured], as_json=False)


def test_a_figure_without_a_target_is_told_and_misses_none() -> None:
    told = Figure("time of the full tier", 700.0, "s", None)
    assert told.met
    assert render([told], as_json=False).endswith("no target")


def measured(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    groups = {"near": lambda: [median_figure("near", [1.0], "x", 2.0)], "far": lambda: [Figure("far", 3.0, "x", 2.0)]}
    code = main(groups, "two groups", arguments)
    return code, *capsys.readouterr()


def test_json_is_one_document_with_figures_and_environment(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, progress = measured(capsys, "--json", "--only", "ne.r")
    document = json.loads(out)
    assert document["figures"] == [
        {
            "name": "near",
            "value": 1.0,
            "unit": "x",
            "target": 2.0,
            "samples": [1.0],
            "at_least": False,
            "cpu_seconds": [],
            "met": True,
        }
    ]
    assert {"torch", "simulator", "cores", "load"} <= document["environment"].keys()
    assert (code, progress.count("\n")) == (0, 1)


def test_a_missed_target_gives_exit_code_1_and_no_match_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert measured(capsys)[0] == 1
    with pytest.raises(SystemExit):
        measured(capsys, "--only", "nothing")
