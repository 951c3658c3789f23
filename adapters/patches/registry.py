"""From plain data to patches: the table of patterns and the canonical order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from ..errors import PatchConflict, PatchParameters
from .attention import ExplicitAttention, GroupedAttention, RenormalisedAttention
from .base import Patch
from .borders import CloneAtBorder
from .contiguous import ContiguousAttention
from .convolutions import MatmulConvolutions
from .disentangled import OneHotPositions
from .document import ReplayDocuments
from .dtype import RunDtype
from .elementwise import ReplaceElementwise
from .embeddings import HostEmbeddings, HostPositions
from .full_blocks import FullWithinLimit
from .full_windows import FullWindows
from .heads import PadHeads
from .host_masks import HostMasks
from .host_parts import FusedGelu, HostAlibi
from .images import PadPatches
from .languages import OneLanguage
from .lengths import PadLength
from .local_causal import LocalCausal
from .masks import AdditiveMask
from .norms import ContiguousNorms, UnfusedLayerNorm, UnfusedRmsNorm
from .overflow_looks import WithoutOverflowLooks
from .padding import PadIntermediate, PlainLinears
from .pooling import HostNormalise, HostPooling
from .positions import PadPositions
from .relative_bias import HostRelativeBias
from .residual_scale import ScaledResiduals
from .rotary import RotateByMatrix
from .rotary_heads import PadRotaryHeads
from .rotary_pairs import RotatePairsByMatrix
from .row_masks import MultipliedRows
from .shared_bias import HostBlockBias
from .split import SplitAttention, SplitGate
from .wide_norms import WideLayerNorm
from .wide_rms_norms import WideRmsNorm
from .widths import PadWidth

ORDER: tuple[type[Patch], ...] = (
    RunDtype,
    ReplaceElementwise,
    FusedGelu,
    OneLanguage,
    ScaledResiduals,
    PlainLinears,
    SplitAttention,
    SplitGate,
    MatmulConvolutions,
    PadIntermediate,
    PadHeads,
    PadRotaryHeads,
    PadWidth,
    RotateByMatrix,
    RotatePairsByMatrix,
    UnfusedRmsNorm,
    UnfusedLayerNorm,
    WideLayerNorm,
    WideRmsNorm,
    ContiguousNorms,
    HostEmbeddings,
    HostPositions,
    HostRelativeBias,
    HostBlockBias,
    WithoutOverflowLooks,
    HostAlibi,
    OneHotPositions,
    FullWindows,
    FullWithinLimit,
    MultipliedRows,
    LocalCausal,
    PadPositions,
    PadLength,
    PadPatches,
    AdditiveMask,
    HostMasks,
    ContiguousAttention,
    ExplicitAttention,
    RenormalisedAttention,
    GroupedAttention,
    CloneAtBorder,
    HostPooling,
    HostNormalise,
)
"""Canonical order: dtype named first, weights, host parts, layout; casting and moving come after all of them."""

PATTERNS: dict[str, type[Patch]] = {cls.pattern: cls for cls in ORDER}
WHOLE = ReplayDocuments.pattern
"""What drafted code is released as: no pattern of the catalogue, and alone in its set."""
_KNOWN: dict[str, type[Patch]] = {**PATTERNS, WHOLE: ReplayDocuments}
_POSITION = {pattern: i for i, pattern in enumerate(_KNOWN)}


def patch_from(data: Mapping[str, Any]) -> Patch:
    """The patch for {"pattern": "P20", "parameters": {...}}; other keys are ignored. Raises PatchParameters."""
    pattern, parameters = data.get("pattern"), data.get("parameters", {})
    if not is_known(pattern):
        raise PatchParameters(f"pattern {pattern!r} is not one of {sorted(PATTERNS)}")
    cls = class_of(str(pattern))
    unknown = set(parameters) - {f.name for f in fields(cls)}
    if unknown:
        raise PatchParameters(f"{pattern}: unknown parameters {sorted(unknown)}")
    return cls(**parameters)


def is_known(pattern: Any) -> bool:
    """Whether this is a pattern of the library, or the documents of drafted code."""
    return pattern in _KNOWN


def class_of(pattern: str) -> type[Patch]:
    """The class that carries a pattern. Raises KeyError for an unknown one."""
    return _KNOWN[pattern]


def check_set(patches: Iterable[Patch]) -> None:
    """Raises PatchConflict if a patch lacks one that it needs, or meets one that it cannot stand beside."""
    chosen = list(patches)
    if len(chosen) > 1 and any(patch.pattern == WHOLE for patch in chosen):
        raise PatchConflict("documents are the whole patched model: no other patch can stand beside them")
    present = {patch.pattern for patch in chosen}
    for patch in chosen:
        missing = sorted(set(patch.needs) - present)
        if missing:
            raise PatchConflict(f"{patch.pattern} needs {', '.join(missing)} in the same set")
        against = sorted(set(patch.conflicts) & present - {patch.pattern})
        if against:
            raise PatchConflict(f"{patch.pattern} and {', '.join(against)} cannot stand in one set")


def in_order(patches: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The patches in canonical order; several of one pattern keep their order. Raises PatchParameters."""
    known = list(patches)
    for data in known:
        if data.get("pattern") not in _POSITION:
            raise PatchParameters(f"pattern {data.get('pattern')!r} is not one of {sorted(_POSITION)}")
    return sorted(known, key=lambda data: _POSITION[data["pattern"]])
