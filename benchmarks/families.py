"""The factory's loop, family by family: `python -m benchmarks.families loop|approve|show|bundle [FAMILY ...]`.

`loop` starts from an empty list of releases and runs every real stage (inspect, capture, diagnose, draft by the rules,
verify at the full tier) for one model of each family of `families.yaml`, in an installation of its own under
`--folder`. What is done is not done again, so a stopped run goes on. `approve` is a person's decision on what waits for
review: it needs a name and a reason, and is stored like any other. `show` prints a row per family, `bundle` writes the
released adapters as the package ships them. Weights are synthetic.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from typing import Any

import psutil

from benchmarks.controls import cut_vocabulary

HERE = Path(__file__).parent
PROFILE = "profile-2026-08"
OWN_SETTINGS = {"DRAFTERS": "rules", "RELEASES": "none", "WORKERS": "2", "REPRODUCERS_S": "0"}
"""Of the installations: nothing is released yet, and nobody reads scripts of diagnoses."""
CPU = "cpu.jsonl"
"""In an installation: CPU seconds of each run."""


def load_table() -> dict[str, dict[str, Any]]:
    """Family to what stands for it: `type`, `layers`, `vocabulary`, `width`, `of`."""
    import yaml

    content = yaml.safe_load((HERE / "families.yaml").read_text(encoding="utf-8"))
    return {name: {"type": name, **content["defaults"], **row} for name, row in content["families"].items()}


def adapter_names() -> dict[str, list[str]]:
    """Adapter to the families it serves."""
    import yaml

    content = yaml.safe_load((HERE / "families.yaml").read_text(encoding="utf-8"))
    return dict(content["adapters"])


def entry_of(name: str) -> Any:
    """The catalogue row of a family: the starter catalogue's first of its type, cut in depth and vocabulary."""
    from dataclasses import replace

    from pipeline.catalogue.folder import pooling_mode

    row = load_table()[name]
    listed = listed_as(row)
    config = cut_vocabulary(with_width(listed.config or {}, row.get("width", {})))
    return replace(
        listed,
        model_id=f"families/{name}",
        rank=1,
        sweep_order=None,
        config=shallow(config, row["layers"]),
        parameters=None,
        pooling=mode if (mode := pooling_mode(listed.pooling)) in ("mean", "cls", "lasttoken") else "mean",
        max_seq_length=None,
    )


def listed_as(row: dict[str, Any]) -> Any:
    """The starter catalogue's first of a type; one that it lacks has its `config` in the table, and is `like` one."""
    from dataclasses import replace

    config = row.get("config")
    if config is None:
        return first_entry(row["type"])
    own = {"model_type": row["type"], "architectures": tuple(config["architectures"]), "config": config}
    return replace(first_entry(row["like"]), **own)


def first_entry(kind: str) -> Any:
    """The starter catalogue's first row of a model type that has a configuration."""
    from pipeline.catalogue.starter import load_starter

    return next(entry for entry in load_starter() if (entry.config or {}).get("model_type") == kind)


def with_width(config: dict[str, Any], width: dict[str, Any]) -> dict[str, Any]:
    """The configuration with other sizes; of parts, the one that reads text gets them."""
    if isinstance(config.get("text_config"), dict):
        return {**config, "text_config": {**config["text_config"], **width}}
    return {**config, **width}


def shallow(config: dict[str, Any], layers: int) -> dict[str, Any]:
    """The configuration with `layers` layers, or one period of its kinds; of parts, the one that reads text."""
    from pipeline.weights.synthetic.build import load_config, truncated_config

    if isinstance(config.get("text_config"), dict):
        return {**config, "text_config": shallow(config["text_config"], layers)}
    cut = truncated_config(load_config(config), layers).config.to_dict()
    return {**cut, "architectures": config.get("architectures"), "torch_dtype": config.get("torch_dtype")}


@contextmanager
def installation(folder: Path, profile: str) -> Iterator[Any]:
    """The settings of a prepared installation in `folder`, held by this process."""
    from pipeline.database.engine import dispose_engines
    from pipeline.settings import get_settings
    from pipeline.work.installation import prepare_installation, take_charge

    own = {"DATA_DIR": str(folder), "PROFILE": profile, **OWN_SETTINGS}
    os.environ.update({f"SPYRE_FACTORY_{name}": value for name, value in own.items()})
    get_settings.cache_clear()
    settings = get_settings()
    prepare_installation(settings)
    lock = take_charge(settings)
    if lock is None:
        raise SystemExit(f"{folder} is in use by another process")
    with lock:
        yield settings
    dispose_engines()


def loop(name: str, folder: Path, profile: str, seconds: float = inf) -> None:
    """Every stage that is not done yet, until the family waits for a person or the factory can go no further.

    After `seconds` no further stage is begun.
    """
    latest = time.monotonic() + seconds
    from pipeline.database.unit_of_work import unit_of_work
    from pipeline.sweeps.schemas import SweepOptions
    from pipeline.sweeps.service import start_sweep

    with installation(folder, profile):
        options = SweepOptions(profile=profile, weights="synthetic", releases="none")
        with unit_of_work() as session:
            start_sweep(session, "families", [entry_of(name)], options)
        for run, cpu in work(latest):
            with (folder / CPU).open("a", encoding="utf-8") as file:
                file.write(json.dumps({"run": run, "cpu": cpu}) + "\n")


def work(latest: float = inf) -> Iterator[tuple[int, float]]:
    """Run what is queued, in this process, until nothing can be run now or the clock is at `latest`.

    Of each run its number and the CPU seconds of the processes that it started.
    """
    from pipeline.database.unit_of_work import unit_of_work
    from pipeline.work import repository
    from pipeline.work.worker import work_on

    while time.monotonic() < latest:
        with unit_of_work() as session:
            chosen = repository.take_to_send(session, 1)
        if not chosen:
            return
        before = children_cpu()
        work_on(chosen[0])
        yield chosen[0], round(children_cpu() - before, 1)


def children_cpu() -> float:
    """CPU seconds of all processes below this one: those that ended, and those that wait for more (prepared ones)."""
    ended = os.times()
    living = 0.0
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            living += sum(child.cpu_times()[:4])
    return ended.children_user + ended.children_system + living


def approve(folder: Path, profile: str, reviewer: str, reason: str) -> int:
    """A person's approval of what waits, the newest of each family; how many. What it affects is queued for `loop`."""
    from pipeline.database.accounts import ensure_principal
    from pipeline.database.models import PrincipalKind, Role
    from pipeline.database.unit_of_work import unit_of_work
    from pipeline.review import service

    with installation(folder, profile), unit_of_work() as session:
        person = ensure_principal(session, reviewer, PrincipalKind.HUMAN, [Role.REVIEWER])
        waiting = newest_of_each(service.review_queue(session))
        for number in waiting:
            candidate = service.claim(session, number, person)
            service.approve(session, number, person, seen=service.seen_digest(candidate), reason=reason)
    return len(waiting)


def newest_of_each(waiting: Iterable[Any]) -> list[int]:
    """Of candidates the newest of each family: an earlier one still waits beside it only because it had more error."""
    return list({row.family: row.id for row in sorted(waiting, key=lambda row: row.id)}.values())


def released(folder: Path, profile: str) -> list[dict[str, Any]]:
    """The manifests that an installation has released and not withdrawn."""
    from pipeline.database.unit_of_work import reading
    from pipeline.releases.repository import list_adapters

    with installation(folder, profile), reading() as session:
        return [a.manifest for a in list_adapters(session) if a.origin == "service" and a.state == "released"]


def bundle(root: Path, profile: str, out: Path, only: Collection[str] = ()) -> list[Path]:
    """Writes each adapter of `families.yaml` with what its families' installations have released; the files.

    With `only`, no other installation is opened: a loop may be running in it.
    """
    from dataclasses import replace

    from adapters.releases.manifest import manifest_from_dict, merged

    written = []
    for plain, members in adapter_names().items():
        name = name_on(plain, profile)
        asked = [f for f in members if (root / f).is_dir() and (not only or f in only)]
        found = [data for f in asked for data in released(root / f, profile)]
        path = out / f"{name}.json"
        made = {m.family: replace(m, origin="bundled") for m in map(manifest_from_dict, found)}
        manifests = {f: m for f, m in kept(path).items() if not superseded(m, made.values())} | made
        if manifests:
            adapter = versioned(merged(name, list(manifests.values())), path)
            path.write_text(json.dumps(adapter.to_dict(), indent=1) + "\n")
            written.append(path)
    return written


def versioned(made: Any, path: Path) -> Any:
    """The adapter with the version of the file that it replaces, or the next one where it is another adapter.

    An installation holds one adapter of a name and version.
    """
    from dataclasses import replace

    from adapters.releases.manifest import load_manifest

    if not path.is_file():
        return made
    before = load_manifest(path)
    same = replace(made, version=before.version)
    return same if same.digest == before.digest else replace(made, version=str(int(before.version) + 1))


def name_on(adapter: str, profile: str) -> str:
    """An adapter's name on a profile: that of the default profile is plain, for a name stands for one profile."""
    return adapter if profile == PROFILE else f"{adapter}-{profile.removeprefix('profile-')}"


def kept(path: Path) -> dict[str, Any]:
    """Family to manifest of an adapter that was written before: what is not made anew stays."""
    from adapters.releases.manifest import load_manifest

    if not path.is_file():
        return {}
    adapter = load_manifest(path)
    return {family: adapter.for_family(family) for family in adapter.families}


def superseded(before: Any, made: Iterable[Any]) -> bool:
    """True if one of those made asks for the same words and more: its family was told apart since."""
    return any(before.predicate.items() < one.predicate.items() for one in made)


def row_of(name: str, folder: Path, profile: str) -> dict[str, Any]:
    """What the installation of a family knows: stock verdict, diagnosis, candidates with drafters, adapted verdict."""
    from sqlalchemy import select

    from pipeline.database.unit_of_work import reading
    from pipeline.review.models import CandidateRow
    from pipeline.work.models import Run

    with installation(folder, profile), reading() as session:
        runs = list(session.scalars(select(Run).where(Run.profile == profile).order_by(Run.id)))
        candidates = list(session.scalars(select(CandidateRow).order_by(CandidateRow.id)))
        return {
            "family": name,
            "profile": profile,
            "weights": "synthetic",
            "stock": _stage(runs, ("capture", "execute"), adapted=False),
            "diagnosis": _diagnosis(runs),
            "draft": _last(runs, "draft"),
            "candidates": [_candidate(row) for row in candidates],
            "adapted": _stage(runs, ("execute",), adapted=True),
            "seconds": {run.stage: round(run.seconds or 0) for run in runs},
            "cpu": cpu_of(folder, {run.id: run.stage for run in runs}),
        }


def cpu_of(folder: Path, stages: dict[int, str]) -> dict[str, float]:
    """CPU seconds by stage; those of a run that was begun more than once are added."""
    spent: Counter[str] = Counter()
    path = folder / CPU
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        entry = json.loads(line)
        spent[stages.get(entry["run"], "other")] += entry["cpu"]
    return {stage: round(seconds, 1) for stage, seconds in spent.items()}


def _stage(runs: list[Any], stages: tuple[str, ...], *, adapted: bool) -> dict[str, Any] | None:
    found = [r for r in runs if r.stage in stages and bool(r.adapter_id) == adapted and r.outcome]
    if not found:
        return None
    run = found[-1]
    kinds = dict(Counter(f.kind for f in run.failures))
    return {"stage": run.stage, "outcome": run.outcome, "reason": run.reason[:300], "kinds": kinds, **run.measurements}


def _last(runs: list[Any], stage: str) -> dict[str, Any] | None:
    found = [run for run in runs if run.stage == stage and run.outcome]
    return {"outcome": found[-1].outcome, "reason": found[-1].reason[:1500]} if found else None


def _diagnosis(runs: list[Any]) -> dict[str, Any] | None:
    found = [run for run in runs if run.stage == "diagnose" and run.outcome]
    if not found:
        return None
    causes = [row.data for row in found[-1].diagnoses]
    named = sorted({use["pattern"] for cause in causes for use in cause["patterns"]})
    return {"outcome": found[-1].outcome, "reason": found[-1].reason[:600], "causes": len(causes), "patterns": named}


def _candidate(row: Any) -> dict[str, Any]:
    verdict = row.evidence[-1] if row.evidence else None
    return {
        "state": row.state,
        "reason": row.reason[:600],
        "patches": {patch.pattern: patch.drafter for patch in row.patches},
        "tier": verdict.tier if verdict else None,
        **(verdict.measurements if verdict else {}),
    }


def as_line(row: dict[str, Any]) -> str:
    """One line per family for people."""
    stock, last = row["stock"] or {}, (row["candidates"] or [{}])[-1]
    patches = " ".join(f"{p}({d})" for p, d in last.get("patches", {}).items())
    adapted = (row["adapted"] or {}).get("outcome", "-")
    cosine = last.get("worst_token_cosine")
    figures = f"{cosine:.5f}/{last['pooled_cosine']:.5f}" if cosine is not None else "-"
    why = ",".join(stock.get("kinds", {})) or stock.get("reason", "")[:60]
    said = last.get("reason") or (row["draft"] or row["diagnosis"] or {}).get("reason", "")
    state = last.get("state", "no candidate")
    return (
        f"{row['family']:<19} {row['profile'][-7:]} stock {stock.get('outcome', '-')} ({why}); {patches}; {state}, "
        f"{figures}, fallbacks {last.get('fallbacks')}, adapted {adapted}; CPU {sum(row['cpu'].values()):.0f} s; "
        f"{said[:300] if state != 'released' else ''}"
    )


def main() -> int:
    """Do one verb for the named families, or for all that have an installation (`loop`: all)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("loop", "approve", "show", "bundle"))
    parser.add_argument("family", nargs="*")
    parser.add_argument("--folder", type=Path, required=True, help="where the installations are")
    parser.add_argument("--profile", default=PROFILE)
    parser.add_argument("--out", type=Path, default=HERE.parent / "adapters" / "releases", help="bundle: where to")
    parser.add_argument("--reviewer", help="approve: the person who decides")
    parser.add_argument("--reason", help="approve: why, in one sentence")
    parser.add_argument("--seconds", type=float, default=inf, help="loop: begin no further stage after so long")
    parser.add_argument("--json", action="store_true", dest="as_json")
    given = parser.parse_args()
    root: Path = given.folder / given.profile
    if given.verb == "bundle":
        for path in bundle(root, given.profile, given.out, given.family):
            sys.stdout.write(f"{path}\n")
        return 0
    known = given.family or [n for n in load_table() if given.verb == "loop" or (root / n).is_dir()]
    rows = []
    for name in known:
        folder = root / name
        if given.verb == "loop":
            loop(name, folder, given.profile, given.seconds)
        elif given.verb == "approve":
            if not (given.reviewer and given.reason):
                parser.error("an approval needs --reviewer and --reason")
            approve(folder, given.profile, given.reviewer, given.reason)
        rows.append(row_of(name, folder, given.profile))
        if not given.as_json:
            sys.stdout.write(as_line(rows[-1]) + "\n")
            sys.stdout.flush()
    if given.as_json:
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
