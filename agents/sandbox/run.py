"""Runs untrusted code in a bubblewrap sandbox and brings back its output and the files it was allowed to write.

`run_in_sandbox` fails closed: whatever keeps the sandbox from being set up raises SandboxUnavailable with the remedy,
and nothing has run. What happens inside, however badly, is a `SandboxResult`.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .errors import SandboxUnavailable
from .limits import KilledBy, Limits, OutFile, SandboxResult
from .memory import ALWAYS, MemoryGroup, memory_group
from .plan import Descriptors, bwrap_arguments, init_command, launcher_plan, made_up_files, plain_name, staged
from .remedies import OTHERWISE, remedy_for
from .seccomp import filter_program
from .view import ENVIRONMENT, PYTHON, WORK, readonly_view

SCRIPT = "script.py"
STAGE_DIR = "/tmp"  # noqa: S108 - only a mount point, in a mount namespace of our own
GRACE_S = 20.0
"""Seconds for set-up and report beyond the wall clock that process 1 inside keeps itself."""
DRAIN_S = 5.0
HEAD_MAX = 64 * 1024


Permission = Callable[[], str | None]
_permissions: list[Permission] = []


def ask_before_running(permission: Permission) -> None:
    """From now on every run in this process first asks: a text is why nothing may run here, None lets it go on.

    A worker's stages ask what the self-test at the worker's start found.
    """
    _permissions.append(permission)


def _require_permission() -> None:
    for permission in _permissions:
        if (refusal := permission()) is not None:
            reason, _, remedy = refusal.partition(". Remedy: ")
            raise SandboxUnavailable(reason, remedy or OTHERWISE)


def run_in_sandbox(
    argv_or_script: Sequence[str] | str,
    *,
    files_in: dict[str, bytes] | None = None,
    files_out: Sequence[OutFile | str] = (),
    limits: Limits | None = None,
    packages: tuple[str, ...] = (),
    tools: dict[str, Path] | None = None,
    environment: dict[str, str] | None = None,
) -> SandboxResult:
    """Run a command (absolute paths inside), or a Python script given as text, and return what came out.

    `files_in` are written to the work folder, `files_out` taken from it afterwards if they are plain files within
    their size. `packages` are distributions shown read-only with all they require; `tools` maps names to files or
    folders shown below /opt/tools (both on the Python path). Raises SandboxUnavailable (nothing has run), ValueError
    for a file name that is not plain.
    """
    _require_permission()
    limits = limits or Limits()
    inputs = dict(files_in or {})
    argv = _argv(argv_or_script, inputs)
    outs = [OutFile(item) if isinstance(item, str) else item for item in files_out]
    inner = {
        **asdict(limits),
        "argv": argv,
        "environment": {**ENVIRONMENT, **(environment or {})},
        "work": WORK,
        "folders": [ENVIRONMENT["HOME"], ENVIRONMENT["TMPDIR"]],
        "files_out": [[plain_name(item.name), item.max_bytes] for item in outs],
    }
    started = time.monotonic()
    shown = readonly_view(packages, tools or {})
    with memory_group(limits.memory) as group:
        collected = _launch(inner, inputs, shown, limits, sum(o.max_bytes for o in outs), group)
    return collected.result([item.name for item in outs], time.monotonic() - started)


def _argv(argv_or_script: Sequence[str] | str, inputs: dict[str, bytes]) -> list[str]:
    """The command; a script is added to the inputs and run by the interpreter inside."""
    if not isinstance(argv_or_script, str):
        return list(argv_or_script)
    inputs[SCRIPT] = argv_or_script.encode()
    return [PYTHON, "-S", "-s", "-P", "-B", f"{WORK}/{SCRIPT}"]


def _launch(
    inner: dict[str, Any],
    files_in: dict[str, bytes],
    shown: list[Any],
    limits: Limits,
    files_max: int,
    group: MemoryGroup,
) -> Collected:
    """Start the launcher with exactly the named descriptors and collect until everything inside has ended."""
    files = Descriptors()
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    try:
        seccomp_fd = files.add("seccomp", filter_program())
        made = made_up_files(files, files_in)
        command = init_command(files.add("plan", json.dumps(inner).encode()), write_end)
        view, stage = staged(shown, STAGE_DIR) if os.geteuid() == 0 else (shown, [])
        argv = bwrap_arguments(view, made, limits, seccomp_fd, command)
        plan_fd = files.add("launch", json.dumps(launcher_plan(argv, stage, limits, STAGE_DIR, group.procs)).encode())
        with _start(plan_fd, (*files.fds, write_end)) as process:
            os.close(write_end)
            write_end = -1
            collected = Collected(HEAD_MAX + files_max, memory_limit=group.in_force)
            collected.collect(process, read_end, limits)
        if group.has_killed():
            collected.killed_by = KilledBy.MEMORY
        return collected
    finally:
        files.close()
        os.close(read_end)
        if write_end >= 0:
            os.close(write_end)


def _start(plan_fd: int, pass_fds: tuple[int, ...]) -> subprocess.Popen[bytes]:
    launcher = Path(__file__).with_name("launcher.py")
    try:
        return _spawn(launcher, plan_fd, pass_fds)
    except OSError as error:
        raise SandboxUnavailable(f"no process could be started ({error})", OTHERWISE) from error


def _spawn(launcher: Path, plan_fd: int, pass_fds: tuple[int, ...]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", str(launcher), str(plan_fd)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=pass_fds,
        env={},
        cwd="/",
        start_new_session=True,
    )


@dataclass
class Collected:
    """The streams of one run, each cut at its limit, and how it ended."""

    report_max: int
    streams: dict[str, bytearray] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    killed_by: KilledBy | None = None
    status: int | None = None
    memory_limit: str = ALWAYS

    def collect(self, process: subprocess.Popen[bytes], report_fd: int, limits: Limits) -> None:
        """Read until all ends are closed; kill the group at the wall clock or on a flood of output."""
        assert process.stdout is not None
        assert process.stderr is not None
        ends = {process.stdout.fileno(): "stdout", process.stderr.fileno(): "stderr", report_fd: "report"}
        caps = {"stdout": limits.output, "stderr": limits.output, "report": self.report_max}
        deadline = time.monotonic() + limits.wall_s + GRACE_S
        with selectors.DefaultSelector() as open_ends:
            for fd, name in ends.items():
                open_ends.register(fd, selectors.EVENT_READ, name)
            try:
                while open_ends.get_map() and self.killed_by is None:
                    self._read(open_ends, caps)
                    self._check(deadline, limits.output_flood)
            finally:
                kill_group(process)
            self._drain(open_ends, time.monotonic() + DRAIN_S)
        self.status = process.wait()

    def _read(self, open_ends: selectors.BaseSelector, caps: dict[str, int]) -> None:
        for key, _ in open_ends.select(timeout=0.2):
            if not self._take(key.fd, key.data, caps[key.data]):
                open_ends.unregister(key.fd)

    def _drain(self, open_ends: selectors.BaseSelector, deadline: float) -> None:
        """After a kill: wait until the streams are closed, which is when the last writer inside has died."""
        while open_ends.get_map() and time.monotonic() < deadline:
            self._read(open_ends, {"stdout": 0, "stderr": 0, "report": 0})

    def _take(self, fd: int, name: str, cap: int) -> bool:
        """Read once; what exceeds the cap is counted and dropped. False at the end of the stream."""
        block = os.read(fd, 1 << 16)
        kept = self.streams.setdefault(name, bytearray())
        room = max(0, cap - len(kept))
        kept += block[:room]
        self.dropped[name] = self.dropped.get(name, 0) + max(0, len(block) - room)
        return bool(block)

    def _check(self, deadline: float, flood: int) -> None:
        if time.monotonic() > deadline:
            self.killed_by = KilledBy.WALL_CLOCK
        elif max(self.dropped.values(), default=0) > flood:
            self.killed_by = KilledBy.OUTPUT

    def result(self, names: list[str], seconds: float) -> SandboxResult:
        """The run's result. Raises SandboxUnavailable if the inside never reported itself ready."""
        ready, _, report = bytes(self.streams.get("report", b"")).partition(b"\n")
        if ready != b"ready":
            self._refuse()
        head, files = _parse_report(report, names)
        killed = self.killed_by or (KilledBy(head["killed_by"]) if head.get("killed_by") else None)
        if not head and killed is None:
            killed = KilledBy.ITSELF
        return SandboxResult(
            stdout=self._text("stdout"),
            stderr=self._text("stderr"),
            exit=head.get("exit") if killed in (None, KilledBy.CPU) else None,
            files=files if killed is None else {},
            refused=head.get("refused", {}),
            stdout_truncated=self.dropped.get("stdout", 0) > 0,
            stderr_truncated=self.dropped.get("stderr", 0) > 0,
            killed_by=killed,
            seconds=seconds,
            memory_limit=self.memory_limit,
        )

    def _refuse(self) -> None:
        said = self._text("stderr").strip()[:500] or f"status {self.status}, no message"
        raise SandboxUnavailable(f"the sandbox could not be set up ({said})", remedy_for(said))

    def _text(self, name: str) -> str:
        """The stream as text, with a notice where it was cut."""
        text = bytes(self.streams.get(name, b"")).decode("utf-8", "replace")
        cut = self.dropped.get(name, 0)
        return f"{text}\n[{name} cut here: {cut} more bytes]" if cut else text


def _parse_report(report: bytes, names: list[str]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Head and files of the report, both empty unless it is complete and names only allowed files."""
    line, _, body = report.partition(b"\n")
    try:
        head = json.loads(line)
        sizes = [(str(name), int(size)) for name, size in head["files"]]
    except (ValueError, KeyError, TypeError):
        return {}, {}
    if sum(size for _, size in sizes) != len(body) or not _is_allowed(sizes, names):
        return {}, {}
    files: dict[str, bytes] = {}
    at = 0
    for name, size in sizes:
        files[name] = body[at : at + size]
        at += size
    return head, files


def _is_allowed(sizes: list[tuple[str, int]], names: list[str]) -> bool:
    """True if every size is one and every file is of the list, once."""
    told = [name for name, _ in sizes]
    return len(set(told)) == len(told) and set(told) <= set(names) and all(size >= 0 for _, size in sizes)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill bubblewrap's session; its death ends process 1 inside and with it the whole process namespace."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
