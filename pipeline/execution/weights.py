"""The weights of one execution: the checkpoint's own, or calibrated synthetic ones written beside the run."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.execution.models import load_weights
from pipeline.execution.subject import Subject

SEED = 0
RECIPE_FILE = "recipe.json"
LARGEST_FULL_DEPTH = 200_000_000
"""Parameters up to which a model is diagnosed, and its candidates are verified, at full depth."""
LARGEST_EXECUTED = 600_000_000
"""Parameters up to which an adapter is executed at full depth at the full tier: 8.5 GiB at most at 596 million, of the
12 that a stage may have."""
CUT_LAYERS = 2
"""Layers of a cut model, or one period of the layer kinds: some defects show only where one block follows another."""
SWEEP_VOCABULARY = 4_096
"""Token ids that a model without a tokenizer has at the sweep tier; capability is asked of the whole table."""


@dataclass(frozen=True)
class Prepared:
    """The stock model (fp32, CPU, eval), the folder a device child loads it from, and what must be said about it."""

    model: Any
    folder: Path
    tokenizer: Any
    depth: str
    recipe: dict[str, Any] | None


def prepare(subject: Subject, *, brief: bool = False, largest: int | None = None) -> Prepared:
    """Load or synthesise, `brief` with few layers and token ids. Raises CheckpointProblem or RecipeRefused.

    `largest`: parameters up to which synthetic weights have every layer, LARGEST_FULL_DEPTH unless it is said.
    """
    tokenizer = load_tokenizer(subject.folder)
    if subject.has_weights:
        return Prepared(load_weights(subject.folder), subject.folder, tokenizer, "full", None)
    return synthesised(subject, tokenizer, brief=brief, largest=largest or LARGEST_FULL_DEPTH)


def synthesised(subject: Subject, tokenizer: Any, *, brief: bool, largest: int) -> Prepared:
    """A model with weights of the calibrated recipe, saved as a checkpoint folder for the device child.

    A replay has the folder made beforehand: weights are what is measured, so they must be the same bits, and the recipe
    gives the same bits only with the same threads and instruction set.
    """
    from pipeline.inspection import inspect_checkpoint
    from pipeline.weights.synthetic.build import synthesise

    if subject.weights_dir is not None:
        return _made_before(subject.weights_dir, tokenizer)
    parameters = inspect_checkpoint(subject.folder).parameters or 0
    layers = CUT_LAYERS if brief or parameters > largest else None
    vocabulary = SWEEP_VOCABULARY if brief and tokenizer is None else None
    made = synthesise(subject.folder, SEED, layers, vocabulary=vocabulary)
    folder = subject.workdir / "weights"
    made.model.save_pretrained(folder, safe_serialization=True)
    recipe = {"seed": SEED, **made.report.to_dict(), "weights_digest": digest_of(folder)}
    (folder / RECIPE_FILE).write_text(json.dumps(recipe))
    return Prepared(load_weights(folder), folder, tokenizer, str(made.report.depth), recipe)


def _made_before(folder: Path, tokenizer: Any) -> Prepared:
    recipe = json.loads((folder / RECIPE_FILE).read_text())
    return Prepared(load_weights(folder), folder, tokenizer, str(recipe["depth"]), recipe)


def digest_of(folder: Path) -> str:
    """sha256 over the folder's weight files by name."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def load_tokenizer(folder: Path) -> Any:
    """The checkpoint's tokenizer, None if the folder has none."""
    if not (folder / "tokenizer.json").is_file() and not (folder / "tokenizer_config.json").is_file():
        return None
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
