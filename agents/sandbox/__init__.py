"""The sandbox in which drafted code runs: `run_in_sandbox`, its limits and result, and what it raises."""

from .errors import SandboxUnavailable
from .limits import KilledBy, Limits, OutFile, SandboxResult
from .run import ask_before_running, run_in_sandbox

__all__ = [
    "KilledBy",
    "Limits",
    "OutFile",
    "SandboxResult",
    "SandboxUnavailable",
    "ask_before_running",
    "run_in_sandbox",
]
