"""A measured figure with its target, and the command line that every benchmark of figures shares (design §12)."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One claim: `value` in `unit` must be at most `target`, or at least where `at_least`; told alone without one.

    `samples` are what the value is the median of, `cpu_seconds` what each cost, which a busy machine changes less. A
    value of None was not measured, and meets no target.
    """

    name: str
    value: float | None
    unit: str
    target: float | None
    samples: tuple[float, ...] = ()
    at_least: bool = False
    cpu_seconds: tuple[float, ...] = ()

    @property
    def met(self) -> bool:
        """True if the value is within the target, or was measured and has none."""
        if self.value is None or self.target is None:
            return self.value is not None
        return self.value >= self.target if self.at_least else self.value <= self.target


Groups = Mapping[str, Callable[[], Iterable[Figure]]]
"""Name of a group -> what measures its figures."""


def median_figure(
    name: str, samples: Sequence[float], unit: str, target: float, cpu_seconds: Sequence[float] = ()
) -> Figure:
    """The figure that is the median of `samples`."""
    kept, cpu = (tuple(round(s, 4) for s in values) for values in (samples, cpu_seconds))
    return Figure(name, round(statistics.median(samples), 4), unit, target, kept, cpu_seconds=cpu)


def main(
    groups: Groups,
    description: str | None,
    arguments: Sequence[str] | None = None,
    more: Callable[[], Mapping[str, Any]] = dict,
) -> int:
    """Measure the groups (with `--only PATTERN` those whose name matches), print them; 1 if a target is missed.

    `more` is asked at the end for what the JSON document holds beside the figures.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one document, with all samples")
    parser.add_argument("--only", metavar="PATTERN", default="", help=f"groups of figures: {', '.join(groups)}")
    chosen = parser.parse_args(arguments)
    names = [name for name in groups if re.search(chosen.only, name)]
    if not names:
        parser.error(f"no group of figures matches {chosen.only!r}; there are {', '.join(groups)}")
    figures = [figure for name in names for figure in _measured(groups[name])]
    sys.stdout.write(render(figures, chosen.json, **more()) + "\n")
    return 0 if all(f.met for f in figures) else 1


def _measured(group: Callable[[], Iterable[Figure]]) -> Iterable[Figure]:
    for figure in group():
        sys.stderr.write(_line(figure, 0) + "\n")
        yield figure


def render(figures: Sequence[Figure], as_json: bool, **more: Any) -> str:
    """A table of name, value, target and whether it is met; or the JSON document, `more` beside its figures."""
    if as_json:
        shown = [{**asdict(f), "met": f.met} for f in figures]
        return json.dumps({"figures": shown, "environment": environment(), **more}, indent=2)
    width = max(len(f.name) for f in figures)
    return "\n".join(_line(f, width) for f in figures)


def _line(figure: Figure, width: int) -> str:
    value = "not measured" if figure.value is None else f"{figure.value:>8.3f} {figure.unit:<3}"
    cost = f"  {statistics.median(figure.cpu_seconds):.1f} CPU-s" if figure.cpu_seconds else ""
    return f"{figure.name:<{width}}  {value}  {_judged(figure)}{cost}"


def _judged(figure: Figure) -> str:
    if figure.target is None:
        return "no target"
    bound = "at least" if figure.at_least else "at most"
    return f"target {bound} {figure.target:.3f}  {'met' if figure.met else 'NOT MET'}"


def environment() -> dict[str, Any]:
    """What the figures were measured on: versions, cores and the load of the last minute."""
    from pipeline.work.environment import environment_of, shipped_profiles

    versions = environment_of(next(p for p in shipped_profiles() if p == "profile-2026-08"))
    return {
        **versions,
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
    }
