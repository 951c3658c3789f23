"""Reproducers of a checkpoint's causes: made in the device child, run in fresh processes by the stage that asked."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from agents.types import Diagnosis, Failure
from pipeline.diagnosis.reproducer.check import Checked, check_script
from pipeline.diagnosis.reproducer.make import NotReproduced, Reproducer, loud_reproducer, reproducer_of
from pipeline.diagnosis.reproducer.refusals import Recorder, in_block, outside
from pipeline.diagnosis.reproducer.script import SILENT, Setting
from pipeline.diagnosis.reproducer.signature import Signature
from pipeline.diagnosis.wrong_values.blocks import BlockGraph, Untraceable, graph_of, record_block_calls
from pipeline.diagnosis.wrong_values.findings import Finding
from pipeline.execution.scripts import NOT_A_USERS

Inputs = dict[str, torch.Tensor]


class LoudPrograms:
    """The programs of loud failures, from one run of the stock model on the CPU."""

    def __init__(self, model: Any, embedder: Any, inputs: Inputs, failures: Sequence[Failure]) -> None:
        from adapters.structure import find_blocks

        blocks = [(b.path, b.module) for b in find_blocks(model)]
        self._recorder = Recorder([f for f in failures if f.place == "outside"])
        with self._recorder, torch.no_grad():
            embedder(**inputs)
        kinds = {type(c.block): c for c in reversed(record_block_calls(model, blocks, inputs))}
        self._graphs: list[BlockGraph] = []
        for call in kinds.values():
            with suppress(Untraceable):
                self._graphs.append(graph_of(call))

    def reproducer(self, failure: Failure, setting: Setting) -> Reproducer:
        """The reproducer of one failure. Raises NotReproduced."""
        eager = failure.place == "outside"
        program = outside(failure, self._recorder) if eager else in_block(failure, self._graphs)
        if program is None:
            raise NotReproduced("no operation of that line is refused by itself")
        return loud_reproducer(failure, program, setting, eager=eager)


Maker = Callable[[], Reproducer]


def silent(findings: Sequence[Finding], setting: Setting) -> list[Maker]:
    """What makes the reproducer of each silent cause."""
    return [partial(reproducer_of, finding, setting) for finding in findings]


def loud(diagnoses: Sequence[Diagnosis], programs: LoudPrograms, setting: Setting) -> list[Maker]:
    """What makes the reproducer of each loud cause."""
    return [partial(programs.reproducer, d.failure, setting) for d in diagnoses]


def attach(diagnoses: Sequence[Diagnosis], makers: Sequence[Maker], budget_s: float | None = None) -> None:
    """Put a reproducer into the evidence of each diagnosis; of causes that are refused alike, into the first that has
    one: a sum with a mask may not show by drawn values what a sum without it shows.

    Wrong values come first, for nothing else shows them. None is begun after `budget_s` seconds of the processor.
    """
    shown: dict[tuple[str, ...], int] = {}
    began = time.process_time()
    for number in sorted(range(len(diagnoses)), key=lambda n: diagnoses[n].failure.kind not in SILENT):
        kind = alike(diagnoses[number].failure)
        if kind in shown:
            continue
        if budget_s is not None and time.process_time() - began > budget_s:
            why = f"none was made: the others took {budget_s:.0f} s; `diagnose --repro` makes all"
            entry: dict[str, Any] = {"script": None, "reason": why}
        else:
            entry = described(makers[number])
        if entry["script"] is not None:
            shown[kind] = number
        diagnoses[number].evidence["reproducer"] = entry
    for number, diagnosis in enumerate(diagnoses):
        held = shown.get(alike(diagnosis.failure), number)
        if held != number:
            diagnosis.evidence["reproducer"] = _as(held)


def _as(held: int) -> dict[str, Any]:
    return {"script": None, "reason": "the same operation fails in the same way elsewhere", "as": held}


def alike(failure: Failure) -> tuple[str, ...]:
    """Equal for failures that one script shows: kind, operation, condition, and what is refused."""
    is_silent = failure.kind in SILENT
    return failure.kind, failure.op, str(failure.scalars[:1]) if is_silent else failure.message, failure.dtype_run


def described(make: Maker) -> dict[str, Any]:
    """A reproducer as plain data; why there is none, if there is none."""
    try:
        made = make()
    except NotReproduced as reason:
        return {"script": None, "reason": str(reason)}
    return {"script": made.script, "signature": asdict(made.signature)}


def verified(entry: Mapping[str, Any], folder: Path, name: str, launcher: Sequence[str] = ()) -> dict[str, Any]:
    """The entry after its script ran in a fresh process; a script that does not fail the same way is not kept."""
    if entry["script"] is None:
        return dict(entry)
    script = folder / f"{name}.py"
    script.write_text(entry["script"])
    environment = {k: v for k, v in os.environ.items() if k not in NOT_A_USERS}
    return kept_if_same(entry, check_script(script, Signature(**entry["signature"]), launcher, environment))


def kept_if_same(entry: Mapping[str, Any], checked: Checked) -> dict[str, Any]:
    """The entry with what its script said; without the script where that is not the signature."""
    if not checked.same:
        return {"script": None, "reason": f"a fresh process does not fail the same way: {checked.said}"}
    return {**entry, "said": checked.said}
