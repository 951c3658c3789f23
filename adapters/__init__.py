"""Adapters: runtime patches for stock embedding models. Importing this package loads nothing heavy.

The names below are looked up on first use. Inside the package all imports are relative, because it is installed for
users as `spyre_adapters` and used by the factory as `adapters`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .adaptation import adapt
    from .auto import (
        AutoSpyreModel,
        AutoSpyreModelForMaskedLM,
        AutoSpyreModelForQuestionAnswering,
        AutoSpyreModelForSequenceClassification,
        AutoSpyreModelForTokenClassification,
    )
    from .errors import (
        AdapterError,
        AdapterWithdrawn,
        AlreadyAdapted,
        BundleError,
        BundleTampered,
        DocumentRefused,
        ManifestRefused,
        ModelNotReady,
        NotRemapped,
        PatchCodeChanged,
        PatchDoesNotApply,
        PatchTargetMoved,
        ShapeRefused,
        SignerRefused,
        SpyreNoAdapterError,
        StillAdapted,
        StockGone,
        StructureUnknown,
        UndoneOutOfOrder,
        UnknownSigner,
        VersionsDiffer,
        WrongTask,
    )
    from .handle import Handle
    from .integrations.sentence_transformers import disable_sentence_transformers, enable_sentence_transformers
    from .releases.bundle import load_bundle, load_withdrawals, trust_successor
    from .releases.lookup import find
    from .releases.trust import Trust, distrust_signer, trust_signer

_HOMES = {
    "adapt": ".adaptation",
    "Handle": ".handle",
    "find": ".releases.lookup",
    "load_bundle": ".releases.bundle",
    "load_withdrawals": ".releases.bundle",
    "Trust": ".releases.trust",
    "distrust_signer": ".releases.trust",
    "trust_signer": ".releases.trust",
    "trust_successor": ".releases.bundle",
    "enable_sentence_transformers": ".integrations.sentence_transformers",
    "disable_sentence_transformers": ".integrations.sentence_transformers",
    "AutoSpyreModel": ".auto",
    "AutoSpyreModelForMaskedLM": ".auto",
    "AutoSpyreModelForQuestionAnswering": ".auto",
    "AutoSpyreModelForSequenceClassification": ".auto",
    "AutoSpyreModelForTokenClassification": ".auto",
    "AdapterError": ".errors",
    "AdapterWithdrawn": ".errors",
    "AlreadyAdapted": ".errors",
    "BundleError": ".errors",
    "BundleTampered": ".errors",
    "DocumentRefused": ".errors",
    "ManifestRefused": ".errors",
    "ModelNotReady": ".errors",
    "NotRemapped": ".errors",
    "PatchCodeChanged": ".errors",
    "PatchDoesNotApply": ".errors",
    "PatchTargetMoved": ".errors",
    "ShapeRefused": ".errors",
    "SignerRefused": ".errors",
    "SpyreNoAdapterError": ".errors",
    "StillAdapted": ".errors",
    "StockGone": ".errors",
    "StructureUnknown": ".errors",
    "UndoneOutOfOrder": ".errors",
    "UnknownSigner": ".errors",
    "VersionsDiffer": ".errors",
    "WrongTask": ".errors",
}

__all__ = [
    "AdapterError",
    "AdapterWithdrawn",
    "AlreadyAdapted",
    "AutoSpyreModel",
    "AutoSpyreModelForMaskedLM",
    "AutoSpyreModelForQuestionAnswering",
    "AutoSpyreModelForSequenceClassification",
    "AutoSpyreModelForTokenClassification",
    "BundleError",
    "BundleTampered",
    "DocumentRefused",
    "Handle",
    "ManifestRefused",
    "ModelNotReady",
    "NotRemapped",
    "PatchCodeChanged",
    "PatchDoesNotApply",
    "PatchTargetMoved",
    "ShapeRefused",
    "SignerRefused",
    "SpyreNoAdapterError",
    "StillAdapted",
    "StockGone",
    "StructureUnknown",
    "Trust",
    "UndoneOutOfOrder",
    "UnknownSigner",
    "VersionsDiffer",
    "WrongTask",
    "adapt",
    "disable_sentence_transformers",
    "distrust_signer",
    "enable_sentence_transformers",
    "find",
    "load_bundle",
    "load_withdrawals",
    "trust_signer",
    "trust_successor",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
