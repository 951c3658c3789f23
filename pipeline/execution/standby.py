"""The children of one execution, forked while this process has one thread and has imported what all of them need.

Three processes import torch and transformers otherwise, which costs more than what they do with it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agents.capture.apply import CODE
from pipeline.execution import children
from pipeline.execution.capture_child import MEMORY_MB, CaptureRun
from pipeline.execution.device_run import DeviceRun
from pipeline.execution.subject import Subject
from pipeline.work.forked import Standby


@dataclass
class Standbys:
    """Those that wait, each for one task; None where the task is for a child that is started then."""

    device: Standby | None = None
    capture: Standby | None = None


@contextmanager
def standing_by(subject: Subject) -> Iterator[Standbys]:
    """The device child, and the capture child of a candidate without drafted code. They end with the block."""
    with imported_for_good(subject):
        found = _forked(subject)
        try:
            yield found
        finally:
            for standby in (found.device, found.capture):
                if standby is not None:
                    standby.dismiss()


@contextmanager
def imported_for_good(subject: Subject) -> Iterator[None]:
    """`import_all`, and within the block no garbage collection walks what was imported, here or in a forked child.

    It is a million objects, of which none dies: walking them cost every one of the three processes seconds.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        import_all(subject)
    finally:
        if collects:
            gc.enable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _forked(subject: Subject) -> Standbys:
    folder = subject.folder if subject.has_weights else None
    found = Standbys(Standby(DeviceRun(subject.device, subject.profile, folder), children.MEMORY_MB))
    if subject.candidate is not None and not any(p["pattern"] == CODE for p in subject.patches or []):
        found.capture = Standby(CaptureRun(), MEMORY_MB)
    return found


def import_all(subject: Subject) -> None:
    """Imports torch, transformers and the modules of the subject's model, which building it on meta does.

    Nothing is computed: a process whose OpenMP threads run must not fork. A model that cannot be built is none here.
    """
    from pipeline.errors import CheckpointProblem
    from pipeline.execution.models import build_meta

    try:
        build_meta(subject.folder)
    except CheckpointProblem:
        return
