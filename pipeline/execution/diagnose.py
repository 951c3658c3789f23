"""The diagnose stage: weights prepared here, causes found in a device child."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pipeline.execution.children import call_device_child
from pipeline.execution.reproduce import verified
from pipeline.execution.subject import Subject
from pipeline.execution.weights import prepare


def diagnose(subject: Subject, *, reproducers: bool = False) -> dict[str, Any]:
    """OUT of the stage: `diagnoses`, `predicted`, `fingerprint`, `curves` (stored as the run's evidence).

    With `reproducers`, each diagnosis's evidence holds a script that failed the same way in a fresh process, or why
    there is none.
    """
    prepared = prepare(subject)
    spec = {
        "model": subject.model,
        "checkpoint_dir": str(subject.folder),
        "weights_dir": str(prepared.folder),
        "profile": subject.profile,
        "device": subject.device,
        "workdir": str(subject.workdir),
        "reproducers": reproducers,
    }
    answer = call_device_child("pipeline.execution.diagnose_run", spec, subject.workdir)
    if reproducers:
        keep_what_fails(answer["diagnoses"], subject.workdir)
    return {
        "outcome": "passed",
        "reason": f"{len(answer['diagnoses'])} causes",
        "diagnoses": answer["diagnoses"],
        "predicted": answer["predicted"],
        "fingerprint": answer["fingerprint"],
        "curves": answer["curves"],
        "evidence": {"curves": answer["curves"]},
        "weights": subject.weights_word,
        "depth": prepared.depth,
    }


AT_ONCE = 2
"""Reproducers that run beside each other: each is a process of its own."""


def keep_what_fails(diagnoses: list[dict[str, Any]], folder: Path) -> None:
    """Run the reproducer of each diagnosis in a fresh process; its evidence keeps what failed in the same way."""

    def run(numbered: tuple[int, dict[str, Any]]) -> dict[str, Any]:
        number, diagnosis = numbered
        return verified(diagnosis["evidence"]["reproducer"], folder, f"reproducer-{number}")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for diagnosis, entry in zip(diagnoses, pool.map(run, enumerate(diagnoses)), strict=True):
            diagnosis["evidence"]["reproducer"] = entry
