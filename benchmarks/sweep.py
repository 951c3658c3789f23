"""The sweep over a whole catalogue: `python -m benchmarks.sweep --catalog FILE [--data DIR] [--top N] [--json]`.

Weights are synthetic, so one checkpoint per group is executed (`pipeline.sweeps.groups`) and nothing is drafted: what
is measured is the state of the bundled releases. The sweep is kept in the data folder: stopped at any moment, the same
command goes on where it was; `cold sweep` adds up the time of all its parts. FILE is not copied into the repository.

Groups (`--only`): `import` stores the rows; `sweep` is the cold sweep; `full` is the full tier over the groups that
matter most (`--first N` of them), a sweep of its own that is resumed alike; `report` counts, by forecast and by
execution, and writes `--page`, `--html`, `--csv` (with `--known` from kept forecasts only); `again` is the sweep with
nothing changed and with 1,000 more rows; `rows` is a million rows on PostgreSQL; `ways` compares one worker with two, a
kill and servers.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from benchmarks.figures import Figure, main
from benchmarks.installation import settings_of
from benchmarks.kept import cache_folder
from benchmarks.sweep_full import choose, chosen_figures, extrapolation_figures, full_figures, section
from benchmarks.sweep_report import (
    FULL_TIER,
    Outputs,
    calibration_figures,
    executed_by,
    figures_of,
    full_by,
    report_of,
    write,
)
from benchmarks.sweep_sample import SAMPLE, measure_sample, write_sample
from benchmarks.sweep_size import ROWS, measure_size
from pipeline.catalogue.entry import CatalogueEntry
from pipeline.catalogue.service import load_catalogue
from pipeline.cli.sweep import run_sweep
from pipeline.database.migrate import upgrade
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.settings import Settings
from pipeline.sweeps.catalogue import store_snapshot
from pipeline.sweeps.repository import sweep_runs
from pipeline.sweeps.schemas import SweepOptions
from pipeline.sweeps.service import start_sweep, sweep_report

PROFILE = "profile-2026-08"
WORKERS = 2
GIB = 2**30
ADDED = 1_000
PARTS, FULL_PARTS = "parts.json", "parts-full.json"


@dataclass(frozen=True)
class Bench:
    """What is swept, and where the installation is kept."""

    catalog: str
    data: Path
    top: int | None
    sample: int = SAMPLE
    rows: int = ROWS
    first: int | None = None
    outputs: Outputs = field(default_factory=Outputs)
    more: dict[str, Any] = field(default_factory=dict)
    """What the JSON document holds beside the figures: the report, once it is made."""

    def options(self) -> SweepOptions:
        """Synthetic weights, bundled releases, sweep tier."""
        return SweepOptions(profile=PROFILE, weights="synthetic", releases="bundled", top=self.top)

    def entries(self) -> list[CatalogueEntry]:
        """The rows of the catalogue."""
        return load_catalogue(self.catalog, self.top)


def installed(data: Path) -> AbstractContextManager[Settings]:
    """An embedded installation in `data` with two workers that draft nothing."""
    data.mkdir(parents=True, exist_ok=True)
    return settings_of(data_dir=data, workers=WORKERS, drafters="none", profile=PROFILE)


def measure_import(bench: Bench) -> Iterator[Figure]:
    """Read and store every row in an empty database; then the start of a sweep over them."""
    with installed(bench.data / "import") as settings:
        (settings.data_dir / "factory.sqlite3").unlink(missing_ok=True)
        upgrade()
        spent = Spent()
        entries = bench.entries()
        with unit_of_work() as session:
            store_snapshot(session, bench.catalog, entries)
        yield spent.figure(f"import of {len(entries)} rows", 5.0)
        spent = Spent()
        with unit_of_work() as session:
            sweep = start_sweep(session, bench.catalog, entries, bench.options()).id
        yield spent.figure("start of a sweep over them", 5.0)
        with reading() as session:
            groups = len(sweep_runs(session, sweep))
        yield Figure("groups to execute, of the rows with a configuration", groups, "", float(len(entries)) / 20)


def measure_sweep(bench: Bench) -> Iterator[Figure]:
    """The whole sweep, resumed if it was stopped: time, memory, then what it found."""
    with installed(bench.data / "sweep") as settings, Watch() as watch, parts(bench) as spent:
        run_sweep(settings, bench.catalog, bench.options(), resume=True, progress=True)
    yield Figure("cold sweep", round(sum(spent), 1), "s", 3600.0, tuple(spent))
    yield Figure("memory of all its processes, highest", round(watch.highest / GIB, 2), "GiB", 12.0)


def measure_report(bench: Bench) -> Iterator[Figure]:
    """Supported by forecast and passing by execution as far as the sweep has come; the files that are asked for."""
    entries = bench.entries()
    with installed(bench.data / "sweep") as settings:
        made = not bench.outputs.known
        report = report_of(entries, bench.data / "forecasts", PROFILE, settings, bench.catalog, make=made)
    bench.more["report"] = report
    figures = [*figures_of(report), *calibration_figures(report)]
    yield from figures
    write(report, figures, bench.outputs)


def measure_full(bench: Bench) -> Iterator[Figure]:
    """Every oracle at full depth for the groups that matter most, resumed if it was stopped; outside the 60 minutes."""
    from pipeline.execution.weights import LARGEST_EXECUTED

    entries = bench.entries()
    with installed(bench.data / "sweep") as settings:
        told = executed_by(settings, bench.catalog)[0]
        chosen = choose(entries, told, LARGEST_EXECUTED)
        yield from chosen_figures(chosen)
        rows = chosen.rows[: bench.first]
        if not rows:
            return
        file = write_sample(rows, Path(bench.catalog), bench.data / f"full-{len(rows)}")
        options = replace(bench.options(), tier=FULL_TIER, top=None)
        with parts(bench, FULL_PARTS) as spent:
            run_sweep(settings, str(file), options, resume=True, progress=True)
        yield Figure(f"{len(rows)} groups at the full tier", round(sum(spent), 1), "s", None, tuple(spent))
        found = section(entries, told, full_by(settings))
    yield from extrapolation_figures(found)
    yield from full_figures(found)


def measure_again(bench: Bench) -> Iterator[Figure]:
    """The same sweep with nothing changed, and with a thousand more rows of known configurations."""
    with installed(bench.data / "sweep") as settings:
        began = time.monotonic()
        report = run_sweep(settings, bench.catalog, bench.options(), resume=False, progress=True)
        yield Figure("unchanged sweep", round(time.monotonic() - began, 2), "s", 60.0)
        yield Figure("model executions of it", report["executed"], "", 0.0)
        yield from _added(bench)


def measure_rows(bench: Bench) -> Iterator[Figure]:
    """A catalogue of a million rows on PostgreSQL."""
    yield from measure_size(bench.entries(), bench.rows)


def measure_ways(bench: Bench) -> Iterator[Figure]:
    """The same verdicts with one and two workers, after a kill, and on production servers."""
    with tempfile.TemporaryDirectory(prefix="spyre-sample-") as folder:
        yield from measure_sample(bench.entries(), Path(bench.catalog), Path(folder), bench.sample)


def _added(bench: Bench) -> Iterator[Figure]:
    entries = bench.entries()
    known = [entry for entry in entries if entry.config][:ADDED]
    more = [
        replace(entry, model_id=f"{entry.model_id}-again", rank=len(entries) + number)
        for number, entry in enumerate(known, start=1)
    ]
    spent = Spent()
    with unit_of_work() as session:
        sweep = start_sweep(session, "added", more, bench.options()).id
    yield spent.figure(f"{len(more)} more rows of known configurations", 5.0)
    with reading() as session:
        report = sweep_report(session, sweep)
    waiting = sum(row["outcome"] == "unknown" for row in report["models"])
    yield Figure("of these without a verdict at once", waiting, "", 0.0)


@contextmanager
def parts(bench: Bench, name: str = PARTS) -> Iterator[list[float]]:
    """The seconds of every part of a sweep so far; this one is added and kept, also when it is stopped."""
    file = bench.data / name
    spent: list[float] = json.loads(file.read_text()) if file.is_file() else []
    began = time.monotonic()
    try:
        yield spent
    finally:
        spent.append(round(time.monotonic() - began, 1))
        file.write_text(json.dumps(spent))


class Spent:
    """Seconds since it was made, by the clock and of this process."""

    def __init__(self) -> None:
        self._began, self._cpu = time.monotonic(), time.process_time()

    def figure(self, name: str, target: float) -> Figure:
        """The seconds until now, with those of the processor beside them."""
        cpu = round(time.process_time() - self._cpu, 2)
        return Figure(name, round(time.monotonic() - self._began, 2), "s", target, cpu_seconds=(cpu,))


class Watch:
    """The highest sum of resident memory of this process and all below it, looked at twice a second."""

    def __init__(self) -> None:
        self.highest = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        me = psutil.Process()
        while not self._end.wait(0.5):
            self.highest = max(self.highest, sum(map(_resident, [me, *me.children(recursive=True)])))


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


GROUPS: dict[str, Callable[[Bench], Iterable[Figure]]] = {
    "import": measure_import,
    "sweep": measure_sweep,
    "full": measure_full,
    "report": measure_report,
    "again": measure_again,
    "rows": measure_rows,
    "ways": measure_ways,
}


def measure(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; 1 if a target is missed."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--catalog", required=True)
    parser.add_argument("--data", type=Path, default=cache_folder() / "sweep")
    parser.add_argument("--top", type=int)
    parser.add_argument("--sample", type=int, default=SAMPLE, help="rows of the group `ways`")
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of the group `rows`")
    parser.add_argument("--first", type=int, help="of the groups for the full tier, only the first; the others later")
    for name in ("page", "html", "csv"):
        parser.add_argument(f"--{name}", type=Path, help="file to write the report to")
    parser.add_argument("--known", action="store_true", help="report kept forecasts only, make none")
    chosen, others = parser.parse_known_args(arguments)
    outputs = Outputs(chosen.page, chosen.html, chosen.csv, chosen.known)
    bench = Bench(chosen.catalog, chosen.data, chosen.top, chosen.sample, chosen.rows, chosen.first, outputs)
    groups = {name: partial(group, bench) for name, group in GROUPS.items()}
    return main(groups, __doc__, others, more=lambda: bench.more)


if __name__ == "__main__":
    sys.exit(measure())
