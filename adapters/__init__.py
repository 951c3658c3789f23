"""Adapters: runtime patches for stock embedding models. Importing this package loads nothing heavy.

The names below are looked up on first use. Inside the package all imports are relative, because it is installed for
users as `spyre_adapters` and used by the factory as `adapters`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .adaptation import adapt
    from .errors import (
        AdapterError,
        AlreadyAdapted,
        DocumentRefused,
        ManifestRefused,
        ModelNotReady,
        PatchCodeChanged,
        PatchDoesNotApply,
        PatchTargetMoved,
        SpyreNoAdapterError,
        StructureUnknown,
    )
    from .handle import Handle
    from .integrations.sentence_transformers import disable_sentence_transformers, enable_sentence_transformers
    from .releases.lookup import find_adapter

_HOMES = {
    "adapt": ".adaptation",
    "Handle": ".handle",
    "find_adapter": ".releases.lookup",
    "enable_sentence_transformers": ".integrations.sentence_transformers",
    "disable_sentence_transformers": ".integrations.sentence_transformers",
    "AdapterError": ".errors",
    "AlreadyAdapted": ".errors",
    "DocumentRefused": ".errors",
    "ManifestRefused": ".errors",
    "ModelNotReady": ".errors",
    "PatchCodeChanged": ".errors",
    "PatchDoesNotApply": ".errors",
    "PatchTargetMoved": ".errors",
    "SpyreNoAdapterError": ".errors",
    "StructureUnknown": ".errors",
}

__all__ = [
    "AdapterError",
    "AlreadyAdapted",
    "DocumentRefused",
    "Handle",
    "ManifestRefused",
    "ModelNotReady",
    "PatchCodeChanged",
    "PatchDoesNotApply",
    "PatchTargetMoved",
    "SpyreNoAdapterError",
    "StructureUnknown",
    "adapt",
    "disable_sentence_transformers",
    "enable_sentence_transformers",
    "find_adapter",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
