"""An adapter's manifest: which models it serves and which patches it puts on them. Plain JSON, no code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch.nn as nn

from ..digests import digest_of
from ..errors import ManifestRefused, PatchParameters
from ..patches.registry import PATTERNS, patch_from

FORMAT = 1
MAX_BYTES = 1024 * 1024
ORIGINS = ("bundled", "service")
NOT_BEHAVIOUR = ("evidence", "origin")


@dataclass(frozen=True)
class Manifest:
    """A released, versioned set of patches for a family.

    `predicate` is in the words of `describe`. Each patch is {"pattern", "parameters", "drafter", "exactness", "bound",
    "digest", "target_digest"}; the two digests were recorded when it was verified. `dtype_policy` is {"run": dtype,
    "probe": "overflow" or "none"}; `buckets` are the lengths it was verified at; `evidence` are digests.
    """

    name: str
    version: str
    family: str
    profile: str
    predicate: dict[str, Any]
    patches: tuple[dict[str, Any], ...]
    origin: str = "bundled"
    dtype_policy: dict[str, Any] = field(default_factory=dict)
    buckets: tuple[int, ...] = ()
    evidence: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """sha256 over everything that decides behaviour: all but origin and evidence."""
        return digest_of({k: v for k, v in asdict(self).items() if k not in NOT_BEHAVIOUR})

    def summary(self) -> dict[str, Any]:
        """What a report says about the adapter."""
        return {
            "name": self.name,
            "version": self.version,
            "family": self.family,
            "profile": self.profile,
            "origin": self.origin,
            "digest": self.digest,
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain data with format and digest; `manifest_from_dict` reads it back."""
        return {"format": FORMAT, **json.loads(json.dumps(asdict(self))), "digest": self.digest}


def manifest_from_dict(data: Mapping[str, Any]) -> Manifest:
    """The manifest written by `to_dict`. Raises ManifestRefused: unknown format, field, pattern, or a wrong digest."""
    values = dict(data)
    if values.pop("format", None) != FORMAT:
        raise ManifestRefused(f"manifest format {data.get('format')!r} is not {FORMAT}")
    recorded = values.pop("digest", None)
    try:
        manifest = Manifest(**{**values, **{k: tuple(values[k]) for k in ("patches", "buckets", "evidence")}})
    except (TypeError, KeyError) as error:
        raise ManifestRefused(f"manifest {data.get('name')!r}: {error}") from error
    _check(manifest)
    if recorded != manifest.digest:
        raise ManifestRefused(f"manifest {manifest.name!r}: digest {recorded!r} is not {manifest.digest!r}")
    return manifest


def load_manifest(path: str | Path) -> Manifest:
    """Reads a manifest file. Raises ManifestRefused when it is missing, too large or not a manifest."""
    path = Path(path)
    if not path.is_file():
        raise ManifestRefused(f"no manifest at {str(path)!r}")
    if path.stat().st_size > MAX_BYTES:
        raise ManifestRefused(f"{str(path)!r} is larger than {MAX_BYTES} bytes")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ManifestRefused(f"{str(path)!r} is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise ManifestRefused(f"{str(path)!r} is not a manifest")
    return manifest_from_dict(data)


def record_digests(model: nn.Module, patches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The patches with `digest` and `target_digest` as they are for this stock model, and their exactness."""
    recorded = []
    for data in patches:
        patch = patch_from(data)
        defaults = {"drafter": None, "exactness": patch.exactness, "bound": patch.bound}
        digests = {"digest": patch.digest(model), "target_digest": patch.target_digest(model)}
        recorded.append({**defaults, **data, **digests})
    return recorded


def _check(manifest: Manifest) -> None:
    if not manifest.name or not manifest.version or not manifest.patches or not manifest.predicate:
        raise ManifestRefused("a manifest needs a name, a version, a predicate and at least one patch")
    if manifest.origin not in ORIGINS:
        raise ManifestRefused(f"origin {manifest.origin!r} is not one of {ORIGINS}")
    for data in manifest.patches:
        if not isinstance(data, dict) or data.get("pattern") not in PATTERNS:
            raise ManifestRefused(f"manifest {manifest.name!r}: a patch has an unknown pattern")
        try:
            patch_from(data)
        except PatchParameters as error:
            raise ManifestRefused(f"manifest {manifest.name!r}: {error}") from error
