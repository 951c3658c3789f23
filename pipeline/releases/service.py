"""Decisions about adapters: which one serves a checkpoint, what a release contains, withdrawal, the bundled ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from agents.types import canonical
from pipeline.database.artefacts import store_json
from pipeline.database.events import emit
from pipeline.database.insert import insert_or_return
from pipeline.database.unit_of_work import database_now
from pipeline.releases import repository
from pipeline.releases.errors import AlreadyWithdrawn, ManifestUnreadable
from pipeline.releases.matching import matches
from pipeline.releases.models import Adapter, AdapterState, Origin
from pipeline.review.models import SCRIPTED, CandidateRow
from pipeline.sweeps.models import Checkpoint

MANIFEST_FORMAT = 1
STOCK = "stock"
"""Stands for "no adapter" in content keys."""


def matching_adapter(session: Session, checkpoint: Checkpoint, profile: str, releases_mode: str) -> Adapter | None:
    """The adapter that serves the checkpoint on `profile`; None if it must run as it is."""
    for adapter in repository.usable_adapters(session, profile, releases_mode):
        if matches(adapter.predicate, checkpoint.family, checkpoint.config):
            return adapter
    return None


def manifest_of(candidate: CandidateRow, version: int) -> dict[str, Any]:
    """The manifest a released candidate becomes (`adapters.releases.manifest.Manifest.to_dict`).

    What only a look at the model can say (structural predicate, patch digests, dtype policy, buckets) was recorded by
    its verification in `evidence["manifest"]`.
    """
    recorded: dict[str, Any] = next(
        (row.evidence["manifest"] for row in reversed(candidate.evidence) if "manifest" in row.evidence), {}
    )
    return {
        "name": candidate.family,
        "version": str(version),
        "family": candidate.family,
        "profile": candidate.profile,
        "predicate": recorded.get("predicate") or {"families": [candidate.family]},
        "patches": recorded.get("patches") or candidate.data["patches"],
        "origin": Origin.SERVICE.value,
        "dtype_policy": recorded.get("dtype_policy") or {"run": candidate.dtype, "probe": "none"},
        "buckets": recorded.get("buckets") or [],
        "evidence": [row.digest for row in candidate.evidence],
    }


def manifest_digest(manifest: dict[str, Any]) -> str:
    """sha256 over what decides an adapter's behaviour: the whole manifest but origin and evidence."""
    left_out = ("origin", "evidence", "format", "digest")
    return hashlib.sha256(canonical({k: v for k, v in manifest.items() if k not in left_out})).hexdigest()


def families_of(manifest: dict[str, Any]) -> list[str]:
    """The families a manifest serves: those of its members, or its own."""
    return [member["family"] for member in manifest.get("members") or ()] or [manifest["family"]]


def release(session: Session, candidate: CandidateRow) -> Adapter:
    """Make the candidate an adapter of origin `service`; its manifest is stored as an artefact first."""
    manifest = manifest_of(candidate, repository.next_version(session, candidate.family))
    adapter = _store(session, manifest, candidate)
    emit(session, "adapter.released", "adapter", adapter.id, request_id=candidate.request_id, family=adapter.family)
    return adapter


def _store(session: Session, manifest: dict[str, Any], candidate: CandidateRow | None) -> Adapter:
    digest = manifest_digest(manifest)
    whole = {"format": MANIFEST_FORMAT, **manifest, "digest": digest}
    values = {
        **{name: manifest[name] for name in ("name", "origin", "family", "profile")},
        "version": int(str(manifest["version"]).split(".")[0]),
        "scripted": any(patch.get("model") == SCRIPTED for patch in manifest["patches"]),
        "manifest": whole,
        "predicate": {"families": families_of(manifest)},
        "artefact_digest": store_json(session, whole, "manifest"),
        "candidate_id": candidate.id if candidate else None,
        "request_id": candidate.request_id if candidate else None,
        "created_at": database_now(session),
    }
    adapter: Adapter = insert_or_return(session, Adapter, {"digest": digest}, values).row
    return adapter


def withdraw(session: Session, adapter_id: int, reason: str) -> Adapter:
    """Take an adapter back; its row, manifest and evidence stay. Raises `UnknownAdapter`, `AlreadyWithdrawn`."""
    adapter = repository.lock_adapter(session, adapter_id)
    if adapter.state == AdapterState.WITHDRAWN:
        raise AlreadyWithdrawn(f"Adapter {adapter.name!r} version {adapter.version} is withdrawn already.")
    adapter.state, adapter.withdrawn_reason = AdapterState.WITHDRAWN, reason
    adapter.withdrawn_at = database_now(session)
    session.flush()
    emit(session, "adapter.withdrawn", "adapter", adapter.id, request_id=adapter.request_id, reason=reason)
    return adapter


def sync_bundled(session: Session, manifests: Iterable[dict[str, Any]]) -> int:
    """Make a row for every bundled manifest; bundled adapters that are no longer shipped are withdrawn."""
    kept = set()
    for manifest in manifests:
        row = _store(session, _normal_bundled(manifest), None)
        row.state = AdapterState.RELEASED
        kept.add(row.digest)
    for adapter in repository.list_adapters(session):
        if adapter.origin == Origin.BUNDLED and adapter.digest not in kept:
            adapter.state, adapter.withdrawn_reason = AdapterState.WITHDRAWN, "no longer shipped"
    session.flush()
    return len(kept)


def _normal_bundled(manifest: dict[str, Any]) -> dict[str, Any]:
    missing = [key for key in ("name", "profile", "predicate", "patches") if key not in manifest]
    if missing:
        raise ManifestUnreadable(f"A bundled manifest lacks {', '.join(missing)}: {manifest.get('name', '?')!r}.")
    family = manifest.get("family") or manifest["name"]
    version = manifest.get("version", 1)
    left = {key: value for key, value in manifest.items() if key not in ("format", "digest")}
    return {**left, "family": family, "version": str(version), "origin": Origin.BUNDLED.value}


def bundled_manifests(folder: Path | None = None) -> list[dict[str, Any]]:
    """The manifests shipped in `adapters/releases`, read as data: no adapter code is imported."""
    root = folder or Path(__file__).resolve().parents[2] / "adapters" / "releases"
    return [_read_manifest(path) for path in sorted(root.glob("*.json"))]


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ManifestUnreadable(f"The bundled manifest {path.name!r} cannot be read: {error}.") from error
    return manifest
