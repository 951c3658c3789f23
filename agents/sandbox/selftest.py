"""Proves the sandbox on this machine: probes from inside, limits seen from outside, and the work it is there for.

Run at worker start. Anything that does not hold fails the test; without a sandbox the one check says why, with the
remedy.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from .errors import SandboxUnavailable
from .limits import MIB, KilledBy, Limits, OutFile, SandboxResult
from .run import run_in_sandbox
from .view import ENVIRONMENT

SMALL = Limits(
    wall_s=15, cpu_s=15, memory=192 * MIB, address_space=1024 * MIB, tmp=8 * MIB, file_size=4 * MIB, processes=24
)
FOREIGN = ("/root", "/home", "/var", "/run", "/mnt", "/srv", "/boot", "/etc/shadow", "/etc/hosts", "/sys/fs", "/bin/sh")


class Check(NamedTuple):
    """One thing that must hold, whether it does, and what was seen."""

    name: str
    passed: bool
    detail: str


class Trial(NamedTuple):
    """A script that runs into one limit, and what its result must show."""

    name: str
    script: str
    limits: Limits
    holds: Callable[[SandboxResult], bool]
    files_out: tuple[OutFile, ...] = ()


TRIALS = (
    Trial(
        "wall clock ends the run",
        "import os,time\nos.fork()\ntime.sleep(60)",
        Limits(wall_s=0.3),
        lambda r: r.killed_by is KilledBy.WALL_CLOCK,
    ),
    Trial(
        "memory of all processes together ends the run",
        "import os,time\nx = [os.fork() for _ in range(2)]\nb = bytearray(b'1') * (80 << 20)\ntime.sleep(30)",
        SMALL,
        lambda r: r.killed_by is KilledBy.MEMORY,
    ),
    Trial(
        "processor time ends the run",
        "while True: pass",
        Limits(cpu_s=1, wall_s=10),
        lambda r: r.killed_by is KilledBy.CPU,
    ),
    Trial(
        "too many files end the run",
        "for n in range(10**7): open(f'f{n}', 'w').close()",
        Limits(wall_s=10, inodes=200),
        lambda r: r.killed_by is KilledBy.INODES,
    ),
    Trial(
        "output is cut with a notice",
        "print('x' * 10**6)",
        Limits(wall_s=10, output=1000),
        lambda r: r.stdout_truncated and len(r.stdout) < 1100 and "cut here" in r.stdout and r.exit == 0,
    ),
    Trial(
        "a flood of output ends the run",
        "while True: print('x' * 10**5)",
        Limits(wall_s=10, output=1000, output_flood=MIB),
        lambda r: r.killed_by is KilledBy.OUTPUT,
    ),
    Trial(
        "links, folders and large files do not leave",
        "import os\nos.symlink('/etc/passwd', 'a')\nopen('b', 'w').close()\nos.link('b', 'c')\nos.mkdir('d')\n"
        "open('e', 'w').write('1' * 11)\nopen('f', 'w').write('ok')",
        Limits(wall_s=10),
        lambda r: r.files == {"f": b"ok"} and set(r.refused) == {"a", "b", "c", "d", "e"},
        tuple(OutFile(name, 10) for name in "abcdefg"),
    ),
    Trial(
        "what is left behind is ended, its writes are not waited for",
        "import os,time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(60)",
        Limits(wall_s=20),
        lambda r: r.exit == 0 and r.killed_by is None,
    ),
    Trial(
        "death by a signal is reported",
        f"import os\nos.kill(os.getpid(), {int(signal.SIGSEGV)})",
        Limits(wall_s=10),
        lambda r: r.exit == 128 + signal.SIGSEGV,
    ),
)


def selftest(hidden: Iterable[Path] = (), *, with_torch: bool = True) -> list[Check]:
    """Every check of the sandbox on this machine, in under 20 seconds. `hidden` are more paths that must not be seen.

    `with_torch=False` leaves out the two checks that start torch.
    """
    try:
        probed = run_probes(hidden)
    except SandboxUnavailable as error:
        return [Check("a sandbox can be set up", False, str(error))]
    tried = [_tried(trial) for trial in TRIALS]
    worked = _torch_works() if with_torch else []
    return [*probed, *tried, *worked]


def run_probes(hidden: Iterable[Path] = ()) -> list[Check]:
    """The probes from inside. Raises SandboxUnavailable."""
    result = run_in_sandbox(
        Path(__file__).with_name("probes.py").read_text(),
        files_in={
            "hidden.json": json.dumps(_hidden(hidden)).encode(),
            "limits.json": json.dumps(asdict(SMALL)).encode(),
            "expected.json": json.dumps([*ENVIRONMENT]).encode(),
        },
        files_out=["answer.json"],
        limits=SMALL,
    )
    if "answer.json" not in result.files:
        return [Check("the probes ran", False, f"{result.killed_by or result.exit}: {result.stderr[-500:]}")]
    answers = json.loads(result.files["answer.json"])
    up = Check("a sandbox can be set up", True, f"{result.seconds:.1f} s; {MEMORY_SAID}{result.memory_limit}")
    return [up, *(Check(str(name), passed is True, str(detail)) for name, passed, detail in answers)]


MEMORY_SAID = "memory limit in force: "


def memory_limit_of(checks: Iterable[Check]) -> str:
    """The memory limit in force, as the first check says it; "" where no sandbox could be set up."""
    return next((c.detail.partition(MEMORY_SAID)[2] for c in checks if MEMORY_SAID in c.detail), "")


def _hidden(more: Iterable[Path]) -> list[str]:
    """Paths that must not exist inside. `/` and what is shown under its own name cannot be among them."""
    ours = Path(__file__).resolve().parents[2]
    return [*FOREIGN, *(str(path) for path in (Path.home(), ours, *more) if path != Path("/"))]


def _tried(trial: Trial) -> Check:
    try:
        result = run_in_sandbox(trial.script, limits=trial.limits, files_out=trial.files_out)
    except SandboxUnavailable as error:
        return Check(trial.name, False, str(error))
    seen = f"exit {result.exit}, killed by {result.killed_by}, {result.seconds:.1f} s, refused {result.refused}"
    return Check(trial.name, trial.holds(result), seen)


def _torch_works() -> list[Check]:
    """torch can be imported and computes, and neither it nor any package can be changed."""
    script = (
        "import torch\nassert float(torch.ones(3).sum()) == 3\n"
        "try:\n    open(torch.__file__, 'ab')\nexcept OSError:\n    print('read-only')"
    )
    result = run_in_sandbox(script, packages=("torch", "numpy"), limits=Limits(wall_s=60))
    return [
        Check("torch computes", result.succeeded, f"{result.seconds:.1f} s {result.stderr[-300:]}"),
        Check("packages are read-only", result.stdout.strip() == "read-only", result.stdout.strip()[-200:]),
    ]
