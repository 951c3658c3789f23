"""Decisions about catalogues: what a source name means, the digest of a snapshot, what a row tells the inspection."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from agents.types import FailureKind, canonical
from pipeline.catalogue.entry import CatalogueEntry
from pipeline.catalogue.file_import import import_file
from pipeline.catalogue.folder import entry_files, pooling_mode
from pipeline.catalogue.hub import HubClient, hub_client
from pipeline.catalogue.starter import load_starter
from pipeline.catalogue.store import CatalogueStore, StoredCatalogue
from pipeline.errors import BadInput
from pipeline.inspection import Inspection, Problem, inspect_checkpoint
from pipeline.inspection.sources import ListedFiles

STARTER, HUB = "starter", "hub"
DEFAULT_TOP = 1000
"""Models a refresh lists unless it is told otherwise."""


def load_catalogue(source: str, top: int | None = None, *, client: HubClient | None = None) -> list[CatalogueEntry]:
    """The first `top` rows of "starter", "hub" or a file (see `file_import`), in sweep order, dropped rows included.

    Raises BadInput for an unknown name or a faulty file, EnvironmentProblem if the Hub cannot be used.
    """
    if top is not None and top < 1:
        raise BadInput(f"top is {top}; give a number of at least 1")
    if source == STARTER:
        return load_starter(top)
    if source == HUB:
        return (client or hub_client()).list_top(top or DEFAULT_TOP)
    if not Path(source).is_file():
        raise BadInput(f"{source!r} is no catalogue; give 'starter', 'hub' or a .jsonl or .jsonl.gz file")
    return import_file(Path(source), top=top)


def catalogue_digest(entries: Sequence[CatalogueEntry]) -> str:
    """sha256 (64 hex) over the rows in order: equal for equal catalogues, whenever and wherever they were listed."""
    whole = hashlib.sha256(b"[")
    for number, entry in enumerate(entries):
        whole.update((b"," if number else b"") + canonical(entry.compact()))
    whole.update(b"]")
    return whole.hexdigest()


def refresh(store: CatalogueStore, top: int = DEFAULT_TOP, *, client: HubClient | None = None) -> StoredCatalogue:
    """Lists the Hub and keeps the result. Nothing is kept if the listing fails."""
    return keep(store, HUB, load_catalogue(HUB, top, client=client))


def keep(store: CatalogueStore, source: str, entries: Sequence[CatalogueEntry]) -> StoredCatalogue:
    """Keeps rows as one snapshot."""
    return store.record_snapshot(source, catalogue_digest(entries), entries, datetime.now(UTC))


def inspect_entry(entry: CatalogueEntry) -> Inspection:
    """The inspection of a row by what the row itself says; no network. A dropped row's reason is its problem."""
    if entry.dropped_kind is not None:
        problem = Problem(entry.dropped_kind, entry.dropped_reason or "")
        return Inspection(entry.model_id, entry.revision, model_type=entry.model_type, problem=problem)
    if entry.config is None:
        return Inspection(entry.model_id, entry.revision, model_type=entry.model_type, problem=_no_config(entry))
    found = inspect_checkpoint(_source(entry))
    pooling = (str(pooling_mode(entry.pooling)),) if entry.pooling else found.chain.pooling
    return replace(
        found,
        weights_form=entry.weights_form,
        parameters=entry.parameters or found.parameters,
        parameters_counted=entry.parameters is not None,
        ships_code=found.ships_code or entry.custom_code,
        chain=replace(found.chain, pooling=pooling, normalize=bool(entry.normalize)),
    )


def _source(entry: CatalogueEntry) -> ListedFiles:
    files = entry_files(entry)
    return ListedFiles(entry.model_id, entry.config, tuple(files), entry.revision, entry.gated, files.get)


def _no_config(entry: CatalogueEntry) -> Problem:
    text = f"{entry.model_id!r}: its configuration is not in the catalogue; list it from the Hub to inspect it."
    return Problem(str(FailureKind.UNKNOWN_ARCHITECTURE), text)
