"""The trusted fetcher: a checkpoint's own weights from the Hub into the cache, whole or not at all.

Only safetensors, configuration, tokenizer and module files are asked for, never pickle and never code. Every file is
checked against the digest the Hub lists for the pinned revision; the result is inspected before it is stored.
Where a repository has pickle weights only, the Hub's safetensors conversion of the same bytes is taken and recorded.
A broken transfer leaves verified files and the beginning of the next for a later fetch to resume; a model's own fault
and a full disk leave nothing.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agents.types import FailureKind
from pipeline.catalogue.entry import WeightsForm
from pipeline.catalogue.hub import HubClient, HubFile, HubListing, hub_client
from pipeline.errors import CheckpointProblem, EnvironmentProblem
from pipeline.inspection import Inspection, inspect_checkpoint, require_usable
from pipeline.inspection.files import INDEX, is_root_weights, is_wanted
from pipeline.weights.cache import RECORD, DiskProblem, WeightsCache, disk_errors
from pipeline.weights.download import download

MAX_FILES = 2_000
"""A checkpoint that wants more files than this is none."""


@dataclass(frozen=True)
class Fetched:
    """A stored checkpoint. `revision` is the pinned commit of everything but the weights, `weights_revision` theirs.

    The two differ only for a conversion, whose ref (`refs/pr/1`) is `conversion`. `bytes_read` is what this fetch
    transferred; 0 with `reused` if the cache had it all.
    """

    path: Path
    model_id: str
    revision: str
    weights_revision: str
    conversion: str | None = None
    bytes_read: int = 0
    reused: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "path": str(self.path)}


@dataclass(frozen=True)
class _Plan:
    listing: HubListing
    weights: HubListing
    files: tuple[tuple[HubFile, str], ...]
    """Each file with the commit it is taken from."""

    @property
    def total_bytes(self) -> int:
        return sum(file.size for file, _ in self.files)


def fetch(
    model_id: str, revision: str | None = None, *, cache: WeightsCache, client: HubClient | None = None
) -> Fetched:
    """The checkpoint in the cache, fetched if it is not there. `revision` None means the newest, and pins it.

    Raises NotFound, CheckpointProblem with the model's kind (remote_code, gated, pickle_weights, malformed, ...), or
    EnvironmentProblem for the Hub, the network and our disk. Safe to call from several processes at once.
    """
    hub = client or hub_client()
    stored = _stored(cache, model_id, revision)
    if stored is not None:
        return stored
    listing = hub.listing(model_id, revision)
    with cache.fetching(model_id, listing.revision) as partial:
        return _stored(cache, model_id, listing.revision) or _fetch_into(partial, listing, cache, hub)


def _stored(cache: WeightsCache, model_id: str, revision: str | None) -> Fetched | None:
    folder = cache.find(model_id, revision) if revision and len(revision) == 40 else None
    if folder is None:
        return None
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    origin = {key: record[key] for key in ("model_id", "revision", "weights_revision", "conversion")}
    return Fetched(folder, **origin, reused=True)


def _fetch_into(partial: Path, listing: HubListing, cache: WeightsCache, hub: HubClient) -> Fetched:
    try:
        plan = _plan(listing, hub)
        cache.make_room(plan.total_bytes)
        read = sum(
            download(hub, listing.model_id, commit, file, partial / file.name, cache.root)
            for file, commit in plan.files
        )
        _check(partial, listing.model_id)
        result = _record(partial, plan, cache, read)
        cache.publish(partial, result.path)
    except (CheckpointProblem, DiskProblem):
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return result


def _plan(listing: HubListing, hub: HubClient) -> _Plan:
    """What to take from where, after an inspection of the small files. Raises the model's problem."""
    inspection = require_usable(inspect_checkpoint(hub.source_of(listing)))
    weights = _weights_listing(inspection, listing, hub)
    weight_files = _without_duplicates([f for n, f in weights.files.items() if is_root_weights(n)])
    others = [f for n, f in listing.files.items() if is_wanted(n) and not is_root_weights(n)]
    files = [(f, weights.revision) for f in weight_files] + [(f, listing.revision) for f in others]
    if len(files) > MAX_FILES:
        raise _problem(listing, FailureKind.MALFORMED, f"it has {len(files):,} files, more than any checkpoint")
    return _Plan(listing, weights, tuple(sorted(files, key=lambda item: item[0].size)))


def _weights_listing(inspection: Inspection, listing: HubListing, hub: HubClient) -> HubListing:
    """The listing that holds the safetensors: the model's own, or the Hub's conversion of it."""
    if inspection.weights_form is WeightsForm.NONE:
        raise _problem(listing, FailureKind.NO_NATIVE_WEIGHTS, "it has no weights at all; use synthetic weights")
    if inspection.weights_form is WeightsForm.PICKLE:
        converted = hub.conversion(listing)
        if converted is not None:
            return converted
    require_usable(inspection, real_weights=True)
    return listing


def _without_duplicates(files: list[HubFile]) -> list[HubFile]:
    """One form of the weights: the single file where there is one, else the shards and their index."""
    single = [f for f in files if f.name == "model.safetensors"]
    return single or [f for f in files if f.name == INDEX or is_root_weights(f.name)]


def _check(partial: Path, model_id: str) -> None:
    """The fetched folder must hold loadable weights. Its problem names the model, not our folder."""
    found = inspect_checkpoint(partial)
    problem = found.problem or found.weights_problem
    if problem is not None:
        raise CheckpointProblem(problem.kind, problem.message.replace(repr(str(partial)), repr(model_id), 1))
    if not found.parameters_counted:
        raise EnvironmentProblem(f"{model_id!r}: its weights did not arrive; it is tried again later")


def _record(partial: Path, plan: _Plan, cache: WeightsCache, read: int) -> Fetched:
    listing, weights = plan.listing, plan.weights
    folder = cache.folder(listing.model_id, listing.revision)
    result = Fetched(folder, listing.model_id, listing.revision, weights.revision, weights.ref, read)
    record = {
        "model_id": result.model_id,
        "revision": result.revision,
        "weights_revision": result.weights_revision,
        "conversion": result.conversion,
        "files": {file.name: file.size for file, _ in plan.files},
    }
    with disk_errors(cache.root):
        (partial / RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")
    return result


def _problem(listing: HubListing, kind: FailureKind, text: str) -> CheckpointProblem:
    return CheckpointProblem(str(kind), f"{listing.model_id!r}: {text}.")
