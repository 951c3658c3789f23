"""One operation, two names: what the compiler lowers, and what the model's code calls."""

from __future__ import annotations

WRITTEN = {
    "addmm": "linear",
    "mm": "linear",
    "_scaled_dot_product_fused_attention_overrideable": "scaled_dot_product_attention",
    "_scaled_dot_product_flash_attention_for_cpu": "scaled_dot_product_attention",
    "native_layer_norm": "layer_norm",
    "_fused_rms_norm": "rms_norm",
    "_softmax": "softmax",
    "_safe_softmax": "softmax",
    "_unsafe_view": "view",
    "clone": "contiguous",
    "_to_copy": "to",
    "pow": "pow",
}
"""Packets as reports name them after decomposition, and the packet of the call in the model's code."""


def packet(op: str) -> str:
    """`aten.linear.default` → `linear`."""
    parts = op.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "aten" else parts[0]


def written(op: str) -> str:
    """The packet of the model's code for an operation of either name: `aten.addmm.default` → `linear`."""
    name = packet(op)
    return WRITTEN.get(name, name)
