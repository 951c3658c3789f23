"""Diagnosis on injected faults: `python -m benchmarks.diagnosis [--json] [--pairs N] [--random N] [--only WORD]`.

Every case is one family's two-layer model on `profile-ideal` with one fault (or three at once) in a process of its own;
the pairs whose fault triggers are listed. Answers are kept in a state file, so that an interrupted run goes on; a
change of the diagnosis, the simulator or the cases begins anew.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.diagnosis_families import FAMILIES
from benchmarks.diagnosis_faults import Fault, known_faults, random_faults
from benchmarks.diagnosis_judge import Verdict, is_named, judge
from benchmarks.figures import Figure, render

SEED = 1
PAIRS, RANDOM, MINUTES = 120, 30, 45.0
ROUNDS = 3
"""Rounds in which several faults at once must all be named."""
TRIPLE = ("E-08", "E-17", "E-22")
SOURCES = ("pipeline/diagnosis", "pipeline/execution", "sim_backend", "benchmarks")


@dataclass(frozen=True)
class Case:
    """One family with faults in it; `sort` is clean, known, random or three."""

    sort: str
    family: str
    faults: tuple[Fault, ...]

    @property
    def name(self) -> str:
        """`known/E-17/bert`."""
        return f"{self.sort}/{'+'.join(f.name for f in self.faults) or 'none'}/{self.family}"


def cases(pairs: int, randoms: int) -> Iterator[Case]:
    """Clean models, then pairs of known faults spread over the families, random faults, three at once."""
    families = list(FAMILIES)
    yield from (Case("clean", family, ()) for family in families[: max(1, min(pairs // 4, len(families)))])
    known = list(known_faults())
    spread = [(fault, families[(n + shift) % len(families)]) for shift in range(len(families))
              for n, fault in enumerate(known)]  # fmt: skip
    yield from (Case("known", family, (fault,)) for fault, family in spread[:pairs])
    for n, fault in enumerate(random_faults(SEED, randoms)):
        yield Case("random", families[n % len(families)], (fault,))
    three = tuple(f for f in known if f.name in TRIPLE)
    if pairs >= len(known):
        yield Case("three", "bert-gelu_new", three)


def digest() -> str:
    """Of every source a verdict depends on."""
    root, whole = Path(__file__).parent.parent, hashlib.sha256()
    for folder in SOURCES:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".py", ".yaml", ".cpp", ".h"):
                whole.update(path.read_bytes())
    return whole.hexdigest()[:16]


class State:
    """Answers so far, one JSON line per case."""

    def __init__(self, path: Path) -> None:
        self.path, self.version, self.answers = path, digest(), {}  # type: Path, str, dict[str, dict[str, Any]]
        for line in path.read_text().splitlines() if path.exists() else ():
            entry = json.loads(line)
            if entry["version"] == self.version:
                self.answers[entry["case"]] = entry["out"]

    def keep(self, case: Case, out: dict[str, Any]) -> None:
        """Store an answer."""
        self.answers[case.name] = out
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps({"version": self.version, "case": case.name, "out": out}) + "\n")


def answer(case: Case, state: State, servers: Servers, reproducers: bool) -> dict[str, Any]:
    """The answer to a case, from the state if it is there; `error` where there is none."""
    if case.name in state.answers:
        return state.answers[case.name]
    found = in_rounds(case.faults, lambda faults: servers.mine().diagnosed(case.family, faults, reproducers))
    state.keep(case, found)
    sys.stderr.write(f"{case.name}: {_line(case, found)}\n")
    return found


def in_rounds(faults: Sequence[Fault], diagnosed: Callable[[Sequence[Fault]], dict[str, Any]]) -> dict[str, Any]:
    """The answers of up to ROUNDS rounds as one: between them the faults named so far are switched off.

    `truth` is that of the first round, `rounds` how many there were. A round without an answer ends it as an error.
    """
    left, whole = list(faults), {"truth": [], "causes": [], "wall": 0.0, "rounds": 0}  # type: Any, dict[str, Any]
    while whole["rounds"] < ROUNDS:
        found = diagnosed(left)
        wall = round(whole["wall"] + found.get("wall", 0.0), 1)
        if "error" in found:
            return {**found, "wall": wall}
        first = found if whole["rounds"] == 0 else whole
        causes = [*whole["causes"], *found["causes"]]
        whole = {**first, "causes": causes, "wall": wall, "rounds": whole["rounds"] + 1}
        named = [f for f in left if is_named(f, found)]
        left = [f for f in left if f not in named]
        if not left or not named:
            break
    return whole


class Server:
    """A process that has everything imported and forks one for each case."""

    def __init__(self) -> None:
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        argv = [sys.executable, "-m", "benchmarks.diagnosis_server"]
        self._process = subprocess.Popen(
            argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def diagnosed(self, family: str, faults: Sequence[Fault], reproducers: bool) -> dict[str, Any]:
        """The answer of one case, with `wall` seconds; `error` where there is none."""
        with tempfile.TemporaryDirectory(prefix="spyre-bench-") as folder:
            path, out = Path(folder, "case.json"), Path(folder, "out.json")
            case = {"family": family, "faults": [f.to_dict() for f in faults], "folder": folder}
            path.write_text(json.dumps({**case, "reproducers": reproducers}))
            started = time.monotonic()
            said = self._ask(f"{path} {out}")
            found = json.loads(out.read_text()) if said == "done" else {"error": said}
            return {**found, "wall": round(time.monotonic() - started, 1)}

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return "the server has ended"
        return self._process.stdout.readline().strip() or "the server has ended"

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class Servers:
    """One server per thread that asks."""

    def __init__(self) -> None:
        self._mine, self._all = threading.local(), []  # type: threading.local, list[Server]

    def mine(self) -> Server:
        """The server of this thread."""
        if not hasattr(self._mine, "server"):
            self._mine.server = Server()
            self._all.append(self._mine.server)
        found: Server = self._mine.server
        return found

    def close(self) -> None:
        """End all of them."""
        for server in self._all:
            server.close()


def _line(case: Case, out: dict[str, Any]) -> str:
    if "error" in out:
        return "ERROR " + out["error"].strip().splitlines()[-1][:200]
    verdict = judge(case.faults, out)
    said = [f"{c['kind']} {c['op']} {c['condition']}" for c in out["causes"] if c["kind"] != "cpu_fallback"]
    return f"{verdict} {said[:4]} {out['wall']} s"


# --- figures
def figures(judged: Sequence[tuple[Case, Verdict]], errors: int, minutes: float) -> list[Figure]:
    """Counts and shares with their targets."""
    known = [v for c, v in judged if c.sort in ("known", "three") and v.triggered]
    drawn = [v for c, v in judged if c.sort == "random" and v.triggered]
    clean = [v for c, v in judged if c.sort == "clean"]
    scripts = [v for v in (*known, *drawn) if v.reproducers]
    made, same = sum(v.reproducers for v in scripts), sum(v.same for v in scripts)
    return [
        Figure("pairs of known faults that trigger", len(known), "", PAIRS, at_least=True),
        Figure("random faults that trigger", len(drawn), "", RANDOM, at_least=True),
        Figure("known faults named rightly", _share(v.named for v in known), "", 0.95, at_least=True),
        Figure("random faults named rightly", _share(v.named for v in drawn), "", 0.90, at_least=True),
        Figure("faults of the right kind", _share(v.kind for v in (*known, *drawn)), "", 1.0, at_least=True),
        Figure("false causes on clean models", float(sum(v.false_causes for v in clean)), "", 0.0),
        Figure("reproducers that fail alike", _share(n < same for n in range(made)), "", 1.0, at_least=True),
        Figure("cases without an answer", float(errors), "", 0.0),
        Figure("minutes", minutes, "min", MINUTES),
    ]


def _share(right: Iterable[bool]) -> float | None:
    """The share of true values; None of nothing measured."""
    counted = list(right)
    return round(sum(counted) / len(counted), 4) if counted else None


def main() -> int:
    """Print the pairs and figures; 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--pairs", type=int, default=int(PAIRS * 1.5), help="cases of known faults to try")
    parser.add_argument("--random", type=int, default=RANDOM)
    parser.add_argument("--only", help="cases whose name holds this word")
    parser.add_argument("--no-reproducers", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "spyre-factory", "diagnosis.jsonl")
    parser.add_argument("--state", type=Path, default=cache)
    chosen = parser.parse_args()
    wanted = [c for c in cases(chosen.pairs, chosen.random) if not chosen.only or chosen.only in c.name]
    state = State(chosen.state)
    servers = Servers()
    with ThreadPoolExecutor(chosen.workers) as pool:
        outs = list(pool.map(lambda case: answer(case, state, servers, not chosen.no_reproducers), wanted))
    servers.close()
    judged = [(c, judge(c.faults, o)) for c, o in zip(wanted, outs, strict=True) if "error" not in o]
    minutes = round(sum(o.get("wall", 0.0) for o in outs) / 60 / chosen.workers, 1)
    found = figures(judged, len(outs) - len(judged), minutes)
    pairs = [{"case": c.name, **v._asdict()} for c, v in judged if v.triggered or c.sort == "clean"]
    if chosen.json:
        shown = render(found, as_json=True, sources=state.version, pairs=pairs)
    else:
        shown = "\n".join([*[json.dumps(p) for p in pairs], render(found, as_json=False)])
    sys.stdout.write(shown + "\n")
    return 0 if all(f.met for f in found) else 1


if __name__ == "__main__":
    sys.exit(main())
