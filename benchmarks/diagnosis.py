"""Diagnosis on injected faults: `python -m benchmarks.diagnosis [--json] [--list] [--only PATTERN] [--minutes N]`.

Every case is one two-layer model on `profile-ideal` with one fault (or three at once) in a process of its own, and
every reproducer is run in another fresh one. The pairs whose fault triggers are found first and listed. Each answer is
kept in a file of its own, so that the benchmark can be run in parts (`--only`, `--minutes`): a later call counts what
is there. A change of the diagnosis, the simulator or the cases begins anew.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.diagnosis_cases import AT_ONCE, DRIFTING, RANDOM, Case, cases, drawn, never_triggered
from benchmarks.diagnosis_judge import Verdict, judge
from benchmarks.diagnosis_modules import CONSTRUCTED
from benchmarks.diagnosis_run import Servers, answer, known_triggers
from benchmarks.diagnosis_triggers import models
from benchmarks.figures import Figure, render
from benchmarks.kept import cache_folder, digest_of

PAIRS, MINUTES = 120, 45.0
OF_TRIGGERS = ("triggers", "faults", "families")
MODULES = "benchmarks/diagnosis_modules.py"
TRIGGER_SOURCES = ("sim_backend", *(f"benchmarks/diagnosis_{name}.py" for name in OF_TRIGGERS))
SOURCES = ("pipeline/diagnosis", "pipeline/execution/diagnose*", "pipeline/execution/reproduce.py", "sim_backend",
           "benchmarks/diagnosis*")  # fmt: skip
Judged = Sequence[tuple[Case, dict[str, Any], Verdict]]


class State:
    """Answers so far, one file per case, in a folder of the sources' digest."""

    def __init__(self, folder: Path, version: str) -> None:
        self.folder = folder / version
        self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, name: str) -> Path:
        """The file of a case or a model."""
        return self.folder / (name.replace("/", "--") + ".json")

    def get(self, case: Case) -> dict[str, Any] | None:
        """The answer to a case, if it is there."""
        path = self.path(case.name)
        return json.loads(path.read_text()) if path.exists() else None

    def keep(self, case: Case, out: dict[str, Any]) -> None:
        """Store an answer."""
        draft = self.path(case.name).with_suffix(".part")
        draft.write_text(json.dumps(out))
        draft.rename(self.path(case.name))


def triggers(
    folder: Path, pool: ThreadPoolExecutor, servers: Servers, names: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Model → what triggers in it; asked once for one state of the simulator and the faults."""
    families = State(folder, "triggers-" + digest_of(TRIGGER_SOURCES))
    made = State(folder, "triggers-" + digest_of([*TRIGGER_SOURCES, MODULES]))
    places = {m: (made if m in CONSTRUCTED else families).path(m) for m in names}
    asked = pool.map(lambda m: known_triggers(servers.mine(), m, places[m]), names)
    return dict(zip(names, asked, strict=True))


def run(
    wanted: Sequence[Case], state: State, pool: ThreadPoolExecutor, servers: Servers, until: float, *, reproducers: bool
) -> None:
    """Answer the cases that have no answer or ended in an error, until the clock says `until`."""

    def one(case: Case) -> None:
        if time.monotonic() < until:
            out = answer(case, servers.mine(), reproducers=reproducers)
            state.keep(case, out)
            sys.stderr.write(f"{case.name}: {_line(case, out)}\n")

    list(pool.map(one, [c for c in wanted if "error" in (state.get(c) or {"error": "not run"})]))


def _line(case: Case, out: dict[str, Any]) -> str:
    if "error" in out:
        return "ERROR " + out["error"].strip().splitlines()[-1][:200]
    said = [f"{c['kind']} {c['op']} {c['condition']}" for c in out["causes"] if c["kind"] != "cpu_fallback"]
    return f"{judge(case.faults, out)} {said[:4]} {out['cpu']} s"


# --- figures
def figures(judged: Judged, errors: int, cpu: float, drawings: int) -> Iterator[Figure]:
    """Counts and shares with their targets."""
    known = [v for c, _, v in judged if c.sort in ("known", "made") and v.triggered]
    random = [v for c, _, v in judged if c.sort == "random" and v.triggered]
    three = [v for c, _, v in judged if c.sort == "three"]
    drift = [v for c, _, v in judged if c.sort == "drift" and v.triggered]
    faulty = [*known, *random, *three, *drift]
    clean = [v for c, _, v in judged if c.sort == "clean"]
    made, same = sum(v.reproducers for v in faulty), sum(v.same for v in faulty)
    yield Figure("pairs of known faults that trigger", len(known), "", PAIRS, at_least=True)
    yield Figure("random faults that trigger", len(random), f"of {drawings} drawn", RANDOM, at_least=True)
    yield Figure("known faults named rightly", _share(v.named for v in known), "", 0.95, at_least=True)
    yield Figure("random faults named rightly", _share(v.named for v in random), "", 0.90, at_least=True)
    yield Figure(
        "three at once, all named in three rounds", sum(v.named for v in three), "", len(AT_ONCE), at_least=True
    )
    yield Figure(
        "drift that scores as drift, with its curve", sum(v.curve for v in drift), "", len(DRIFTING), at_least=True
    )
    yield Figure("faults of the right kind", _share(v.kind for v in faulty), "", 1.0, at_least=True)
    yield Figure("faults that passed", sum(v.passed for v in faulty), "", 0.0)
    yield Figure("clean families", len(clean), "", 10, at_least=True)
    yield Figure("false causes on clean families", sum(v.false_causes for v in clean), "", 0.0)
    yield Figure("reproducers that fail alike", _share(n < same for n in range(made)), f"of {made}", 1.0, at_least=True)
    yield Figure("cases without an answer", errors, "", 0.0)
    yield Figure("minutes of two processors", round(cpu / 120, 1), "min", MINUTES)


def _share(right: Iterable[bool]) -> float | None:
    """The share of true values; None of nothing measured."""
    counted = list(right)
    return round(sum(counted) / len(counted), 4) if counted else None


def report(wanted: Sequence[Case], state: State, known: dict[str, dict[str, Any]], *, as_json: bool) -> bool:
    """Print pairs and figures of the cases that have answers; true if every target is met."""
    met = {model: found["met"] for model, found in known.items()}
    outs = [(c, out) for c in wanted if (out := state.get(c)) is not None]
    judged = [(c, o, judge(c.faults, o)) for c, o in outs if "error" not in o]
    pairs = [{"case": c.name, "cpu": o["cpu"], **v._asdict()} for c, o, v in judged if v.triggered or c.sort == "clean"]
    drawings = next((n + 1 for n, (f, _) in enumerate(drawn()) if f.name == _last_random(wanted)), 0)
    cpu = sum(o["cpu"] for _, o in outs) + sum(found["seconds"] for found in known.values())
    unasked = [f"{model}: {found['error']}" for model, found in known.items() if "error" in found]
    found = list(figures(judged, len(outs) - len(judged) + len(unasked), cpu, drawings))
    not_run = [c.name for c in wanted if state.get(c) is None]
    idle = [c.name for c, o in outs if "without_effect" in o]
    if as_json:
        nowhere = never_triggered(met)
        told = {"not_run": not_run, "trigger_nowhere": nowhere, "without_effect": idle, "triggers_not_known": unasked}
        text = render(found, as_json=True, sources=state.folder.name, pairs=pairs, **told)
    else:
        lines = [json.dumps(p) for p in pairs]
        lines += [f"triggers not known: {name}" for name in unasked]
        lines += [f"not run: {name}" for name in not_run]
        lines += [f"met without effect: {name}" for name in idle]
        lines += [f"triggers nowhere: {name}" for name in never_triggered(met)]
        text = "\n".join([*lines, render(found, as_json=False)])
    sys.stdout.write(text + "\n")
    return all(f.met for f in found)


def _last_random(wanted: Sequence[Case]) -> str:
    return next((c.faults[0].name for c in reversed(wanted) if c.sort == "random"), "")


def main() -> int:
    """Print the pairs and figures; 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--list", action="store_true", help="print the cases and run none")
    parser.add_argument("--only", default="", help="cases whose name matches this pattern")
    parser.add_argument("--models", default="", help="models whose name matches; of others nothing is asked")
    parser.add_argument("--minutes", type=float, default=600.0, help="begin no case after that many")
    parser.add_argument("--no-reproducers", action="store_true")
    parser.add_argument("--new-interpreter", action="store_true", help="run reproducers in new interpreters, not forks")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--state", type=Path, default=cache_folder() / "diagnosis", help="folder of the answers")
    chosen = parser.parse_args()
    until = time.monotonic() + chosen.minutes * 60
    state, servers = State(chosen.state, digest_of(SOURCES)), Servers(fresh=chosen.new_interpreter)
    with ThreadPoolExecutor(chosen.workers) as pool:
        known = triggers(chosen.state, pool, servers, [m for m in models() if re.search(chosen.models, m)])
        planned = cases({model: found["met"] for model, found in known.items()})
        wanted = [c for c in planned if re.search(chosen.only, c.name) and c.family in known]
        if not chosen.list:
            run(wanted, state, pool, servers, until, reproducers=not chosen.no_reproducers)
    servers.close()
    if chosen.list:
        sys.stdout.writelines(f"{c.name}\n" for c in wanted)
        return 0
    return 0 if report(wanted, state, known, as_json=chosen.json) else 1


if __name__ == "__main__":
    sys.exit(main())
