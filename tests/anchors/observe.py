"""Run stimuli in children and write down what happened, one JSON object each.

    python -m anchors.observe CACHE < '{"profile-2026-08": ["name", ...], ...}'

torch is imported once; each profile runs in a fork of its own, because a process has one profile. A child that a
stimulus kills is replaced by another for the rest.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from anchors.stimulus import Stimulus, load


def figures(result: torch.Tensor, expected: torch.Tensor) -> dict[str, float]:
    """How far `result` is from `expected`: max and mean |difference|, share outside 0.1 + 0.1 |x|, NaN, row cosine."""
    result, expected = result.detach().cpu().double(), expected.detach().cpu().double()
    assert result.shape == expected.shape, f"{tuple(result.shape)} against {tuple(expected.shape)}"
    difference = torch.where(result == expected, 0.0, (result - expected).abs())
    rows = [t.reshape(-1, t.shape[-1]) if t.dim() else t.reshape(1, 1) for t in (result, expected)]
    cosine = torch.nn.functional.cosine_similarity(rows[0], rows[1], dim=-1)
    clean = difference[~difference.isnan()]
    return {
        "nan": result.isnan().double().mean().item(),
        "max": min(clean.max().item(), 1e300) if clean.numel() else 0.0,
        "mean": min(clean.mean().item(), 1e300) if clean.numel() else 0.0,
        "share": (clean > 0.1 + 0.1 * expected[~difference.isnan()].abs()).double().mean().item(),
        "cosine": cosine.nanmedian().item(),
    }


def _error(error: BaseException) -> dict[str, Any]:
    inner = getattr(error, "inner_exception", None)
    classes = [c.__name__ for e in (error, inner) if e is not None for c in type(e).__mro__]
    where = "".join(traceback.format_tb(error.__traceback__)[-2:])
    return {"classes": classes, "text": str(error), "where": where}


@contextmanager
def _stderr() -> Iterator[Any]:
    """What is written to file descriptor 2 goes to a file, also from C++ and from children."""
    with tempfile.TemporaryFile("w+") as file:
        sys.stderr.flush()
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield file
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)


def observe(stimulus: Stimulus) -> dict[str, Any]:
    """Run one stimulus in this process."""
    started = time.process_time()
    with warnings.catch_warnings(record=True) as seen, _stderr() as file:
        warnings.simplefilter("always")
        try:
            observation: dict[str, Any] = figures(*stimulus.run())
        except Exception as error:  # noqa: BLE001  (what is raised is what is observed)
            observation = {"raised": _error(error)}
        torch._dynamo.reset()
        sys.stderr.flush()
        file.seek(0)
        printed = file.read()[-4000:]
    spent = time.process_time() - started
    return {**observation, "warnings": [str(w.message) for w in seen], "stderr": printed, "cpu_s": round(spent, 2)}


def _child(profile: str, names: list[str], folder: Path) -> None:
    os.environ["SPYRE_SIM_PROFILE"] = profile
    table = load()
    for name in names:
        (folder / name).write_text(json.dumps(observe(table[name])))


def _in_a_fork(profile: str, names: list[str], folder: Path) -> int:
    """Exit code of the child, negative for a signal."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            _child(profile, names, folder)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _run_profile(profile: str, names: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    alone = [n for n in names if load()[n].alone]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for group in [[n for n in names if n not in alone], *([n] for n in alone)]:
            while pending := [n for n in group if n not in found]:
                code = _in_a_fork(profile, pending, folder)
                done = [n for n in pending if (folder / n).exists()]
                found |= {n: json.loads((folder / n).read_text()) for n in done}
                if len(done) < len(pending):
                    found[pending[len(done)]] = {"died": signal.Signals(-code).name if code < 0 else f"exit {code}"}
    return found


def main() -> None:
    """Two profiles at a time. `CACHE` is the folder of generated modules."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = sys.argv[1]
    import torch._inductor.compile_fx  # noqa: F401  (imported once, before the forks)

    load()
    work: dict[str, list[str]] = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as name:
        running: list[int] = []
        for profile, names in work.items():
            if len(running) == 2:
                running.remove(os.wait()[0])
            pid = os.fork()
            if pid == 0:
                (Path(name) / profile).write_text(json.dumps(_run_profile(profile, names)))
                os._exit(0)
            running.append(pid)
        for pid in running:
            os.waitpid(pid, 0)
        print(json.dumps({p: json.loads((Path(name) / p).read_text()) for p in work}))  # noqa: T201


if __name__ == "__main__":
    main()
