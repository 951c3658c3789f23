"""What a sandboxed run may use and what it gives back. A leaf module: plain data, no import of ours."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

MIB = 1 << 20


class KilledBy(StrEnum):
    """The limit that ended a run early. Stored text: add members, never rename."""

    WALL_CLOCK = "wall_clock"
    CPU = "cpu"
    MEMORY = "memory"
    INODES = "inodes"
    OUTPUT = "output"
    ITSELF = "itself"
    """The sandbox ended without a report: the code took its own supervisor down, or the kernel did (out of memory)."""


@dataclass(frozen=True)
class Limits:
    """Limits of one run. Sizes in bytes, times in seconds.

    `memory` bounds anonymous and shared resident pages of all processes together plus the private tmp;
    `address_space`, `cpu_s`, `file_size` and `open_files` are per process, `processes` counts threads too.
    `output` is kept per stream; a run that writes more than `output_flood` is ended.
    """

    wall_s: float = 60.0
    cpu_s: int = 60
    memory: int = 3072 * MIB
    address_space: int = 8192 * MIB
    processes: int = 64
    file_size: int = 32 * MIB
    open_files: int = 256
    tmp: int = 64 * MIB
    inodes: int = 2048
    output: int = 256 * 1024
    output_flood: int = 64 * MIB


@dataclass(frozen=True)
class OutFile:
    """A file that may leave the sandbox: a plain name in the work folder and the most bytes it may have."""

    name: str
    max_bytes: int = 4 * MIB


@dataclass(frozen=True)
class SandboxResult:
    """What came out of a run. Everything in it is written by untrusted code.

    `exit` is the status of the command (128 + signal number if a signal ended it), None if it was killed before it
    ended. `refused` says for each allowed file that was not taken why. `memory_limit` names the limit in force.
    """

    stdout: str
    stderr: str
    exit: int | None
    files: dict[str, bytes] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    killed_by: KilledBy | None = None
    seconds: float = 0.0
    memory_limit: str = ""

    @property
    def succeeded(self) -> bool:
        """True if the command ended by itself with status 0."""
        return self.exit == 0 and self.killed_by is None
