"""The diagnose stage: weights prepared here, causes found in a device child."""

from __future__ import annotations

from typing import Any

from pipeline.execution.children import call_device_child
from pipeline.execution.subject import Subject
from pipeline.execution.weights import prepare


def diagnose(subject: Subject) -> dict[str, Any]:
    """OUT of the stage: `diagnoses`, `predicted`, `fingerprint`."""
    prepared = prepare(subject)
    spec = {
        "model": subject.model,
        "checkpoint_dir": str(subject.folder),
        "weights_dir": str(prepared.folder),
        "profile": subject.profile,
        "device": subject.device,
        "workdir": str(subject.workdir),
    }
    answer = call_device_child("pipeline.execution.diagnose_run", spec, subject.workdir)
    return {
        "outcome": "passed",
        "reason": f"{len(answer['diagnoses'])} causes",
        "diagnoses": answer["diagnoses"],
        "predicted": answer["predicted"],
        "fingerprint": answer["fingerprint"],
        "weights": subject.weights_word,
        "depth": prepared.depth,
    }
