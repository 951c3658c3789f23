"""Structural facts of a model that the pattern table needs: head size, causality, element-wise modules."""

from __future__ import annotations

import re
from typing import Any

from pipeline.diagnosis.patterns import Facts

ELEMENTWISE_CODE = ("transformers.activations", "torch.nn.modules.activation")
"""Python modules whose parameterless classes map one tensor to one of the same shape."""


def model_facts(model: Any) -> Facts:
    """Facts of a transformers model, on any device; no weight is read."""
    from adapters.structure import counts_positions_by_id, has_rotary, is_causal

    config = model.config.get_text_config()
    heads = getattr(config, "num_attention_heads", None)
    width = getattr(config, "hidden_size", None)
    head_dim = getattr(config, "head_dim", None) or (width // heads if heads and width else None)
    return Facts(
        head_dim=head_dim,
        causal=is_causal(model),
        relative_bias=any(path.endswith("relative_attention_bias") for path, _ in model.named_modules()),
        counted_positions=counts_positions_by_id(model),
        rotary=has_rotary(model),
        fused=fused_width(model) if has_rotary(model) else 0,
        elementwise=elementwise_modules(model),
        chunked=frozenset(any_layer(p) for p, m in model.named_modules() if hasattr(m, "one_sided_attn_window_size")),
    )


def any_layer(path: str) -> str:
    """A module path with layer numbers as `*`."""
    return re.sub(r"(^|\.)\d+(?=\.|$)", r"\1*", path)


def fused_width(model: Any) -> int:
    """How wide the projections are that give query, key and value at once; 0 without one."""
    from adapters.patches.split import fused_of

    found = ((m, fused) for m in model.modules() if (fused := fused_of(m)) is not None)
    return next((int(m._modules[fused.name].weight.shape[0]) for m, fused in found), 0)


def elementwise_modules(model: Any) -> dict[str, str]:
    """Module path (layer numbers as `*`) → qualified class name of every element-wise module."""
    return {
        any_layer(path): f"{type(m).__module__}.{type(m).__qualname__}"
        for path, m in model.named_modules()
        if type(m).__module__ in ELEMENTWISE_CODE and not list(m.parameters())
    }
