"""The same sweep four ways over a stratified sample: one worker, two, killed and resumed, and on production servers.

Each way is the command `spyre-factory sweep` in a process of its own with an installation of its own. What must be the
same is the verdict of every row; measured values differ, because inputs are drawn anew each time.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil

from benchmarks.figures import Figure
from benchmarks.servers import Postgres, Redis
from pipeline.catalogue.entry import CatalogueEntry
from pipeline.work.process import kill_tree, reaper_command

SAMPLE = 300
SEED = 10
VERDICT = ("outcome", "kind", "adapter", "weights", "tier", "depth", "derived_from")
"""What a sweep says of a row that must not depend on how it ran."""
KILL_AFTER_S = (20.0, 90.0)
"""The kill comes somewhere between these."""
GONE_S = 30.0
"""What is below a killed sweep is taken by its reaper within this time."""
COMMAND = (sys.executable, "-c", "from pipeline.cli.main import main; main()", "sweep")


def stratified(entries: Sequence[CatalogueEntry], size: int = SAMPLE) -> list[CatalogueEntry]:
    """`size` rows: by turns one of each stratum (stock class and what was decided), drawn by a fixed seed."""
    draw = random.Random(SEED)  # noqa: S311 - nothing secret is drawn
    strata: dict[tuple[str, ...], list[CatalogueEntry]] = {}
    for entry in entries:
        strata.setdefault(_stratum(entry), []).append(entry)
    queues = [draw.sample(rows, len(rows)) for _, rows in sorted(strata.items())]
    turns = (queue[turn] for turn in range(max(map(len, queues))) for queue in queues if turn < len(queue))
    return [entry for entry, _ in zip(turns, range(size), strict=False)]


def _stratum(entry: CatalogueEntry) -> tuple[str, ...]:
    kind = (entry.config or {}).get("model_type") or entry.dropped_kind
    return (str(kind), str(entry.mapping), str(entry.dropped_kind))


def write_sample(entries: Sequence[CatalogueEntry], catalog: Path, folder: Path) -> Path:
    """A catalogue file of these rows of `catalog`, beside a link to its configurations; both outside the repository."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {entry.model_id for entry in entries}
    opener: Callable[..., Any] = gzip.open if catalog.suffix == ".gz" else open
    with opener(catalog, "rt") as rows:
        kept = [row for row in rows if row.strip() and json.loads(row)["model_id"] in wanted]
    (folder / "sample.jsonl").write_text("".join(kept))
    configs = folder / "hub_configs.json"
    if not configs.exists():
        configs.symlink_to((catalog.parent / "hub_configs.json").resolve())
    return folder / "sample.jsonl"


def swept(file: Path, data: Path, kill_after: float | None = None, **settings: object) -> dict[str, dict[str, Any]]:
    """The verdicts of a sweep by the command, by model. With `kill_after` it is killed then, and run again."""
    given = {"data_dir": data, "drafters": "none", "workers": 2, **settings}
    env = {**os.environ, **{f"SPYRE_FACTORY_{key.upper()}": str(value) for key, value in given.items()}}
    argv = [*COMMAND, "--catalog", str(file), "--weights", "synthetic", "--resume", "--json"]
    if kill_after is not None:
        _cut_off(argv, env, kill_after)
    done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, check=True)
    return {row["model"]: {key: row[key] for key in VERDICT} for row in json.loads(done.stdout)["models"]}


def _cut_off(argv: Sequence[str], env: Mapping[str, str], seconds: float) -> None:
    process = subprocess.Popen(reaper_command(list(argv)), env=dict(env), stdout=subprocess.DEVNULL)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        for child in psutil.Process(process.pid).children():
            child.kill()
        process.wait(GONE_S)
    finally:
        kill_tree(process)


def measure_sample(entries: Sequence[CatalogueEntry], catalog: Path, folder: Path, size: int) -> Iterator[Figure]:
    """Rows whose verdict differs from that of one worker, in each of the other ways."""
    chosen = stratified(entries, size)
    file = write_sample(chosen, catalog, folder)
    first = swept(file, folder / "one", workers=1)
    verdicts = sum(row["outcome"] in ("passed", "failed") for row in first.values())
    yield Figure(f"of {len(chosen)} rows with a verdict or a reason", verdicts, "", len(chosen), at_least=True)
    moment = random.Random().uniform(*KILL_AFTER_S)  # noqa: S311 - nothing secret is drawn
    ways: dict[str, Callable[[], dict[str, dict[str, Any]]]] = {
        "two workers": lambda: swept(file, folder / "two"),
        f"killed after {moment:.0f} s and resumed": lambda: swept(file, folder / "killed", moment),
        "PostgreSQL and Redis": lambda: _on_servers(file, folder / "servers"),
    }
    for name, way in ways.items():
        found = way()
        differing = sum(found.get(model) != row for model, row in first.items())
        yield Figure(f"rows that differ from one worker's: {name}", differing, "", 0.0)


def _on_servers(file: Path, data: Path) -> dict[str, dict[str, Any]]:
    with ExitStack() as servers:
        postgres, redis = Postgres(), Redis()
        servers.callback(postgres.close)
        servers.callback(redis.close)
        return swept(file, data, database_url=postgres.url, broker_url=redis.url)
