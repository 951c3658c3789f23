"""An adapter's manifest: which models it serves and which patches it puts on them. Plain JSON, no code."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch.nn as nn

from ..describe import ANY, matches
from ..digests import digest_of
from ..errors import ManifestRefused, PatchParameters
from ..patches.registry import is_known, patch_from
from ..tasks import base_of

FORMAT = 1
MAX_BYTES = 8 * 1024 * 1024
ORIGINS = ("bundled", "service")
NOT_BEHAVIOUR = ("evidence", "origin")
RECORDED = ("digest", "target_digest", "cures")
"""Of a patch, what each member of an adapter has its own of."""
MEMBER = {"family", "predicate", "patches", "dtype_policy", "buckets", "evidence"}


@dataclass(frozen=True)
class Manifest:
    """A released, versioned set of patches for a family.

    `predicate` is in the words of `describe`. Each patch is {"pattern", "parameters", "drafter", "exactness", "bound",
    "digest", "target_digest"}; the two digests were recorded when it was verified. `dtype_policy` is {"run": dtype,
    "probe": "overflow" or "none"}; `buckets` are the lengths it was verified at; `evidence` are digests.

    An adapter for several families of one mathematics has `members`: each names its family, its predicate, which of
    `patches` (by place) it takes with the digests that were recorded for it, its buckets and evidence. `predicate` is
    then {"any": [those of the members]}, and the patches themselves carry no digest.
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
    members: tuple[dict[str, Any], ...] = ()

    @property
    def digest(self) -> str:
        """sha256 over everything that decides behaviour: all but origin and evidence."""
        decides = {k: v for k, v in asdict(self).items() if k not in NOT_BEHAVIOUR}
        if not self.members:
            decides.pop("members")
        return digest_of(decides)

    @property
    def families(self) -> tuple[str, ...]:
        """The families it serves."""
        return tuple(member["family"] for member in self.members) or (self.family,)

    def for_model(self, description: Mapping[str, Any]) -> Manifest:
        """The manifest of the one family that a model belongs to; itself without members.

        Raises ManifestRefused for a model of none of its families.
        """
        return self._of_member(lambda member: matches(member["predicate"], dict(description)))

    def for_family(self, family: str) -> Manifest:
        """As `for_model`, by the family's name."""
        return self._of_member(lambda member: member["family"] == family)

    def _of_member(self, wanted: Callable[[dict[str, Any]], bool]) -> Manifest:
        if not self.members:
            return self
        member = next((m for m in self.members if wanted(m)), None)
        if member is None:
            raise ManifestRefused(f"{self.name} {self.version} serves {', '.join(self.families)}, not this model")
        own: dict[str, Any] = {k: member[k] for k in ("family", "predicate", "dtype_policy")}
        own |= {k: tuple(member[k]) for k in ("buckets", "evidence")}
        return replace(self, **own, patches=tuple(_taken(self.patches, t) for t in member["patches"]), members=())

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
        values = asdict(self)
        if not self.members:
            values.pop("members")
        return {"format": FORMAT, **json.loads(json.dumps(values)), "digest": self.digest}


def _taken(patches: tuple[dict[str, Any], ...], taken: Mapping[str, Any]) -> dict[str, Any]:
    """A patch of the adapter with what one member recorded for it."""
    return {**patches[taken["patch"]], **{k: v for k, v in taken.items() if k != "patch"}}


def manifest_from_dict(data: Mapping[str, Any]) -> Manifest:
    """The manifest written by `to_dict`. Raises ManifestRefused: unknown format, field, pattern, or a wrong digest."""
    values = dict(data)
    if values.pop("format", None) != FORMAT:
        raise ManifestRefused(f"manifest format {data.get('format')!r} is not {FORMAT}")
    recorded = values.pop("digest", None)
    try:
        tuples = {k: tuple(values[k]) for k in ("patches", "buckets", "evidence")}
        manifest = Manifest(**{**values, **tuples, "members": tuple(values.get("members", ()))})
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


def merged(name: str, manifests: Sequence[Manifest]) -> Manifest:
    """One adapter for the families of several manifests of one profile and origin; equal patches become one.

    Equal are patches of one pattern with equal parameters, drafter and claim. Raises ManifestRefused for manifests of
    several profiles.
    """
    first = manifests[0]
    if len({(m.profile, m.origin) for m in manifests}) > 1:
        raise ManifestRefused(f"{name}: adapters of several profiles or origins cannot be merged")
    patches: list[dict[str, Any]] = []
    members = tuple(_member(manifest, patches) for manifest in manifests)
    return replace(
        first,
        name=name,
        family=name,
        predicate={ANY: [member["predicate"] for member in members]},
        patches=tuple(patches),
        dtype_policy={},
        buckets=tuple(sorted({b for m in manifests for b in m.buckets})),
        evidence=tuple(e for m in manifests for e in m.evidence),
        members=members,
    )


def _member(manifest: Manifest, patches: list[dict[str, Any]]) -> dict[str, Any]:
    """The member's part; patches that are new are added to `patches`."""
    taken = []
    for data in manifest.patches:
        shared = {k: v for k, v in data.items() if k not in RECORDED}
        if shared not in patches:
            patches.append(shared)
        own = {k: data[k] for k in RECORDED if k in data}
        taken.append({"patch": patches.index(shared), **own})
    plain = {k: getattr(manifest, k) for k in ("family", "predicate", "dtype_policy")}
    return {**plain, "patches": taken, "buckets": list(manifest.buckets), "evidence": list(manifest.evidence)}


def record_digests(model: nn.Module, patches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The patches with `digest` and `target_digest` as they are for this stock model, and their exactness.

    Of a model with a head or a shell the digests are those of the base, which is what `adapt` adapts.
    """
    recorded, model = [], base_of(model)
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
        if not isinstance(data, dict) or not is_known(data.get("pattern")):
            raise ManifestRefused(f"manifest {manifest.name!r}: a patch has an unknown pattern")
        try:
            patch_from(data)
        except PatchParameters as error:
            raise ManifestRefused(f"manifest {manifest.name!r}: {error}") from error
    if manifest.members:
        _check_members(manifest)


def _check_members(manifest: Manifest) -> None:
    for member in manifest.members:
        if set(member) != MEMBER:
            raise ManifestRefused(f"manifest {manifest.name!r}: a member does not have exactly {sorted(MEMBER)}")
        places = [taken.get("patch") for taken in member["patches"]]
        if not places or any(place not in range(len(manifest.patches)) for place in places):
            raise ManifestRefused(f"manifest {manifest.name!r}: {member['family']} takes a patch that is not there")
    if manifest.predicate != {ANY: [member["predicate"] for member in manifest.members]}:
        raise ManifestRefused(f"manifest {manifest.name!r}: the predicate is not that of its members")
