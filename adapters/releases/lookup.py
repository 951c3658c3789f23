"""Which adapter serves a model: those loaded in this process first, then those bundled with the package."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from torch import nn
from transformers import PreTrainedConfig

from ..describe import describe, matches
from ..errors import StructureUnknown, WrongTask
from .manifest import Manifest, load_manifest

DEFAULT_PROFILE = "profile-2026-08"
"""The profile whose adapters a look-up without a profile prefers."""
_loaded: list[Manifest] = []
_withdrawn: dict[str, str] = {}


def use_manifest(manifest: Manifest) -> None:
    """Offers an adapter to later look-ups in this process; the last one offered is looked at first."""
    forget_manifest(manifest)
    _loaded.insert(0, manifest)


def forget_manifest(manifest: Manifest) -> None:
    """Withdraws an offered adapter; one that was not offered is ignored."""
    _loaded[:] = [m for m in _loaded if m.digest != manifest.digest]


def loaded_manifests() -> list[Manifest]:
    """The adapters offered in this process, the first to be looked at first."""
    return list(_loaded)


def withdraw_adapters(reasons: dict[str, str]) -> None:
    """From now on in this process, adapters with these digests are neither found nor applied; values say why."""
    _withdrawn.update(reasons)


def withdrawal_of(manifest: Manifest) -> str | None:
    """Why the adapter is withdrawn, or None if no withdrawal list of this process names it."""
    return _withdrawn.get(manifest.digest)


def bundled_manifests() -> list[Manifest]:
    """The adapters that ship with the package: those of the default profile first, then those of newer profiles.

    Of one name the newest version is first. Raises ManifestRefused for a broken one.
    """
    folder = files(__package__)
    names = sorted((e.name for e in folder.iterdir() if e.name.endswith(".json")), reverse=True)
    manifests = [load_manifest(str(folder / name)) for name in names]
    return sorted(manifests, key=_place, reverse=True)


def _place(manifest: Manifest) -> tuple[Any, ...]:
    return (manifest.profile == DEFAULT_PROFILE, manifest.profile, manifest.name, _version_key(manifest))


def _version_key(manifest: Manifest) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in manifest.version.split("."))


def find(
    model_or_config: nn.Module | PreTrainedConfig, *, profile: str | None = None, bundled: bool = True
) -> Manifest | None:
    """The adapter whose predicate matches, or None. A config is enough; no weight is read.

    Loaded bundles come first, then the adapters that ship with the package; withdrawn ones are left out. `profile`
    keeps only adapters made for that device profile; without it, bundled ones of the default profile come before those
    of others. `bundled=False` looks at loaded ones only.
    """
    candidates = [*_loaded, *(bundled_manifests() if bundled else [])]
    candidates = [m for m in candidates if profile in (None, m.profile) and m.digest not in _withdrawn]
    if not candidates:
        return None
    try:
        description = describe(model_or_config)
    except (StructureUnknown, WrongTask):
        return None
    return next((m for m in candidates if matches(m.predicate, description)), None)
