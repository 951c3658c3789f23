"""Writes a catalogue row as a checkpoint folder without weights, so that every stage gets a local path."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from pathlib import Path
from typing import Any

from agents.types import FailureKind
from pipeline.catalogue.entry import CatalogueEntry
from pipeline.errors import CheckpointProblem, EnvironmentProblem

_POOLING_MODES = frozenset({"mean", "cls", "max", "lasttoken", "weightedmean", "mean_sqrt_len_tokens"})
"""Pooling that a sentence-transformers Pooling module does; other values of a row leave the chain undeclared."""

_OWN_POOLING = {"clip projection": "lasttoken", "siglip pooled": "lasttoken", "clap projection": "cls"}
"""The token that a text tower's own pooling reads, in the words of a Pooling module: the end token is the last one."""

_ST = "sentence_transformers.models"


def materialise(entry: CatalogueEntry, folder: Path) -> Path:
    """The folder, holding `config.json` and the pooling chain of the row; replaced as a whole if it is there.

    Raises CheckpointProblem for a row without a configuration, EnvironmentProblem if it cannot be written.
    """
    files = entry_files(entry)
    if not files:
        kind = entry.dropped_kind or str(FailureKind.UNKNOWN_ARCHITECTURE)
        raise CheckpointProblem(kind, entry.dropped_reason or f"{entry.model_id!r}: no configuration is known for it.")
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    try:
        _write(files, temporary)
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    except OSError as error:
        raise EnvironmentProblem(f"{str(folder)!r} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def entry_files(entry: CatalogueEntry) -> dict[str, bytes]:
    """The files a row stands for, by name; empty without a configuration."""
    if entry.config is None:
        return {}
    documents: dict[str, Any] = {"config.json": entry.config}
    mode = pooling_mode(entry.pooling)
    if mode in _POOLING_MODES:
        documents |= _chain(entry, str(mode))
    if entry.max_seq_length is not None:
        documents["sentence_bert_config.json"] = {"max_seq_length": entry.max_seq_length, "do_lower_case": False}
    return {name: json.dumps(value, indent=1).encode() for name, value in documents.items()}


def pooling_mode(pooling: str | None) -> str | None:
    """A row's pooling as the mode of a Pooling module where there is one that reads the same tokens."""
    return _OWN_POOLING.get(pooling or "", pooling)


def pooled_by(pooling: str | None) -> str:
    """The mode that a row's model is run with: its own where the written chain declares it, else the mean."""
    mode = pooling_mode(pooling)
    return mode if mode in _POOLING_MODES and mode is not None else "mean"


def _chain(entry: CatalogueEntry, mode: str) -> dict[str, Any]:
    kinds = ["Transformer", "Pooling"] + (["Normalize"] if entry.normalize else [])
    paths = ["", "1_Pooling", "2_Normalize"]
    modules = [{"idx": i, "name": str(i), "path": paths[i], "type": f"{_ST}.{kind}"} for i, kind in enumerate(kinds)]
    width = _width(entry.config or {})
    return {"modules.json": modules, "1_Pooling/config.json": {"word_embedding_dimension": width, "pooling_mode": mode}}


def _width(config: dict[str, Any]) -> int | None:
    from pipeline.inspection.sizes import text_sizes

    return text_sizes(config).hidden


def _write(files: dict[str, bytes], folder: Path) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
