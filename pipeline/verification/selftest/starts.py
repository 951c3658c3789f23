"""Sandbox starts that are shared: the tasks of many candidates, answered as a start of their own would answer each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from agents.errors import CandidateRefused
from agents.sandbox import OutFile, run_in_sandbox
from agents.sandbox.answers import json_object
from agents.sandbox.capture_model import LIMITS as ONE_CAPTURE
from agents.sandbox.capture_model import PACKAGES, tools
from agents.sandbox.limits import MIB

PER_START = 48
"""Tasks that share one start: their files must fit its private folder together."""
ANSWER_BYTES, OUTPUT_BYTES = 4 * MIB, 8 * MIB
LIMITS = replace(ONE_CAPTURE, wall_s=1800.0, cpu_s=1800, tmp=768 * MIB, inodes=8192)


class Task(NamedTuple):
    """What `agents.capture.inside` is asked, and the safetensors file that goes with it."""

    content: Mapping[str, Any]
    inputs: bytes = b""


class Answered(NamedTuple):
    """The answer of untrusted code: `refused` or the rest, and its outputs."""

    answer: dict[str, Any]
    outputs: bytes


def answer_tasks(tasks: Sequence[Task]) -> list[Answered]:
    """Every task in as few starts as their number allows. Raises SandboxUnavailable, CandidateRefused for a start
    that one of its tasks took down.
    """
    groups = [tasks[n : n + PER_START] for n in range(0, len(tasks), PER_START)]
    return [answered for group in groups for answered in _start(group)]


def _start(tasks: Sequence[Task]) -> list[Answered]:
    files = {f"{n}.inputs.safetensors": t.inputs for n, t in enumerate(tasks) if t.inputs}
    outs = [OutFile(f"{n}.answer.json", ANSWER_BYTES) for n in range(len(tasks))]
    outs += [OutFile(f"{n}.outputs.safetensors", OUTPUT_BYTES) for n in range(len(tasks))]
    result = run_in_sandbox(
        Path(__file__).with_name("inside_many.py").read_text(),
        files_in={"tasks.json": json.dumps([dict(t.content) for t in tasks]).encode(), **files},
        files_out=outs,
        limits=LIMITS,
        packages=PACKAGES,
        tools=tools(),
    )
    if not result.succeeded:
        raise CandidateRefused(
            f"a shared start ended early ({result.killed_by}, status {result.exit}): {result.stderr[-800:]}"
        )
    return [_answered(result.files, n) for n in range(len(tasks))]


def _answered(files: Mapping[str, bytes], number: int) -> Answered:
    answer = json_object(files.get(f"{number}.answer.json"))
    kept = {"refused": "the code gave no answer"} if answer is None else answer
    return Answered(kept, files.get(f"{number}.outputs.safetensors", b""))
