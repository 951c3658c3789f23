"""Structural facts of a model that the pattern table needs: head size, causality, element-wise modules."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from torch import nn

from pipeline.diagnosis.patterns import STICK, Facts, padded

ELEMENTWISE_CODE = ("transformers.activations", "torch.nn.modules.activation")
"""Python modules whose parameterless classes map one tensor to one of the same shape."""


def model_facts(model: Any) -> Facts:
    """Facts of a transformers model, on any device; no weight is read."""
    from adapters.structure import counts_positions_by_id, has_rotary, is_causal, pools_at_the_end

    config = model.config.get_text_config()
    heads = getattr(config, "num_attention_heads", None)
    width = getattr(config, "hidden_size", None)
    head_dim = getattr(config, "head_dim", None) or (width // heads if heads and width else None)
    parts = parts_of(model)
    return Facts(
        head_dim=head_dim,
        causal=is_causal(model),
        relative_bias="P47" in parts,
        counted_positions=counts_positions_by_id(model),
        rotary=has_rotary(model),
        fused=fused_width(model) if has_rotary(model) else 0,
        elementwise=elementwise_modules(model),
        parts=parts,
        inner=ragged_inner(model),
        width=ragged_width(model, width),
        pools=pools_at_the_end(model),
        language=str(getattr(model.config, "default_language", None) or ""),
    )


LOCATED = (
    "P03",
    "P08",
    "P06",
    "P10",
    "P11",
    "P13",
    "P18",
    "P28",
    "P32",
    "P40",
    "P41",
    "P42",
    "P45",
    "P46",
    "P47",
    "P48",
    "P49",
    "P50",
    "P51",
    "P52",
    "P55",
    "P57",
    "P58",
    "P60",
    "P66",
    "P96",
    "P97",
    "P98",
    "P99",
)
"""Patterns of the library whose own match says where in a model they act."""


def parts_of(model: Any) -> dict[str, frozenset[str]]:
    """Pattern → module paths (layer numbers as `*`) that it acts on; patterns that do not match are left out."""
    from adapters.errors import AdapterError
    from adapters.patches.registry import patch_from

    found = {}
    for pattern in LOCATED:
        with suppress(AdapterError):
            found[pattern] = frozenset(starred(t.path) for t in patch_from({"pattern": pattern}).match(model))
    return found


def starred(path: str) -> str:
    """A module path with layer numbers as `*`."""
    return re.sub(r"(^|\.)\d+(?=\.|$)", r"\1*", path)


def ragged_inner(model: Any) -> int:
    """The inner size of feed-forward parts where it does not fill whole sticks, else 0."""
    from adapters.errors import AdapterError
    from adapters.patches.padding import PadIntermediate

    sizes = {m.out_features for m in model.modules() if type(m) is nn.Linear and m.out_features % STICK}
    for size in sorted(sizes):
        with suppress(AdapterError):
            PadIntermediate(size, padded(size)).match(model)
            return size
    return 0


def ragged_width(model: Any, width: int | None) -> int:
    """The width of what blocks hand on where it does not fill whole sticks and can be padded, else 0."""
    from adapters.errors import AdapterError
    from adapters.patches.widths import PadWidth

    if not width or width % STICK == 0:
        return 0
    with suppress(AdapterError):
        PadWidth(width, padded(width)).match(model)
        return width
    return 0


def fused_width(model: Any) -> int:
    """How wide the projections are that give query, key and value at once; 0 without one."""
    from adapters.patches.split import fused_of

    found = ((m, fused) for m in model.modules() if (fused := fused_of(m)) is not None)
    return next((int(m._modules[fused.name].weight.shape[0]) for m, fused in found), 0)


def elementwise_modules(model: Any) -> dict[str, str]:
    """Module path (layer numbers as `*`) → qualified class name of every element-wise module."""
    return {
        starred(path): f"{type(m).__module__}.{type(m).__qualname__}"
        for path, m in model.named_modules()
        if type(m).__module__ in ELEMENTWISE_CODE and not list(m.parameters())
    }
