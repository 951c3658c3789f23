"""The inspect stage: where the checkpoint's files are, what it is, and which family it belongs to."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from agents.types import FailureKind, canonical
from pipeline.errors import CheckpointProblem
from pipeline.execution.folders import checkpoint_folder
from pipeline.inspection import Inspection, inspect_checkpoint, require_usable


def inspect_subject(spec: dict[str, Any]) -> dict[str, Any]:
    """OUT of the stage; `checkpoint_dir`, `config`, `config_digest`, `description` and `family` go to later stages.

    Raises CheckpointProblem for a checkpoint that cannot be captured.
    """
    folder = checkpoint_folder(spec)
    inspection = require_usable(inspect_checkpoint(folder), real_weights=spec.get("weights") == "hub")
    description = {} if inspection.static else describe_folder(folder)
    return {
        "outcome": "passed",
        "reason": "static word vectors: no patch needed" if inspection.static else "",
        "checkpoint_dir": str(folder),
        "config": inspection.config,
        "config_digest": inspection.config_digest,
        "description": description,
        "family": family_name(inspection, description),
        "weights": "real" if inspection.has_real_weights and spec.get("weights") != "synthetic" else "synthetic",
    }


def describe_folder(folder: Path) -> dict[str, Any]:
    """The structural description of the folder's stock model (built on meta), the words of adapter predicates.

    Raises CheckpointProblem for a model without tokens or repeated layers.
    """
    from adapters.describe import describe
    from adapters.errors import StructureUnknown
    from pipeline.execution.models import build_meta

    try:
        described: dict[str, Any] = describe(build_meta(folder))
    except StructureUnknown as error:
        said = f"{folder.name} is no text transformer: {str(error).splitlines()[0]}; use a text embedding model"
        raise CheckpointProblem(FailureKind.UNKNOWN_ARCHITECTURE, said) from error
    return described


def family_name(inspection: Inspection, description: dict[str, Any]) -> str:
    """A readable name that is equal exactly for equal descriptions: norm placement, head size, activation, digest."""
    digest = hashlib.sha256(canonical(description)).hexdigest()[:10]
    words = [
        description.get("norm") or "static",
        f"h{inspection.sizes.head_dim}",
        description.get("hidden_act") or "none",
    ]
    return "-".join([*words, digest])
