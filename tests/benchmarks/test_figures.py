"""A figure is the median of its samples, and a missed target is said."""

from __future__ import annotations

import json

from benchmarks.figures import Figure, median_figure, render


def test_a_figure_is_the_median_of_its_samples() -> None:
    assert median_figure("forward", [3.0, 1.0, 9.0], "x", 2.0) == Figure("forward", 3.0, "x", 2.0, (3.0, 1.0, 9.0))


def test_a_missed_target_is_said() -> None:
    figures = [Figure("near", 1.0, "s", 1.0), Figure("far", 1.1, "s", 1.0)]
    assert [f.met for f in figures] == [True, False]
    near, far = render(figures, as_json=False).splitlines()
    assert near.endswith(" met")
    assert far.endswith("NOT MET")


def test_json_carries_the_samples() -> None:
    (figure,) = json.loads(render([median_figure("forward", [1.0], "x", 2.0)], as_json=True))
    assert figure == {"name": "forward", "value": 1.0, "unit": "x", "target": 2.0, "samples": [1.0], "met": True}
