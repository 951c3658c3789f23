"""What a model is made of, as plain data: the words that an adapter's predicate is written in.

Computed from classes, attribute names and config; a config alone is enough (the model is then built on meta).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig

from .digests import name_of
from .errors import StructureUnknown
from .structure import (
    convolution_of,
    counts_positions_by_id,
    embeddings_of,
    find_attention,
    find_blocks,
    has_rotary,
    head_size_of,
    is_causal,
    part_sticks,
    position_table,
)
from .tasks import base_of
from .towers import build

ANY = "any"
SHARED = 2
"""Stands for any number of query heads above one that share a key head."""
RARE = ("convolution", "part_sticks")
"""Words of what few models have. A model without it has no such word; a predicate without it is for those models."""
ACTIVATION_FIELDS = ("hidden_act", "activation", "activation_function", "hidden_activation", "feed_forward_proj")


def model_on_meta(config: PreTrainedConfig) -> nn.Module:
    """The stock model of a config without storage. Raises StructureUnknown for a config no stock class is made for."""
    try:
        with torch.device("meta"):
            return build(config).eval()
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise StructureUnknown(f"no stock model for {type(config).__name__}: {error}") from error


def describe(model_or_config: nn.Module | PreTrainedConfig) -> dict[str, Any]:
    """The structural description of a model or of the model a config stands for.

    Keys: `block` and `embeddings` (class names), `attention` (names of q/k/v, or None when fused), `head_dim`,
    `kv_groups` (1, or 2 where query heads share keys: patches treat every number above 1 alike), `attention_function`,
    `scale`, `hidden_act`, `norm` (`pre`, `post` or None), `norm_class`, `positions` (`absolute`, `by_id`, `rotary`,
    `none`), `causal`, `shared_blocks`; and, only where the model has it, `convolution` (the class of a convolution that
    runs beside the blocks) and `part_sticks` (widths in the blocks that are no whole sticks, `312/600`). What is
    described is what `adapt` would adapt: of a model with a head or a shell, the base.
    Raises StructureUnknown, WrongTask.
    """
    whole = model_or_config if isinstance(model_or_config, nn.Module) else model_on_meta(model_or_config)
    model = base_of(whole)
    blocks = find_blocks(model)
    return {
        "block": name_of(type(blocks[0].module)),
        "embeddings": name_of(type(embeddings_of(model))),
        **_attention(model),
        "hidden_act": _activation(model.config),
        "norm": norm_placement(blocks[0].module),
        "norm_class": _norm_class(blocks[0].module),
        "positions": _positions(model),
        "causal": is_causal(model),
        "shared_blocks": len(blocks) < getattr(model.config, "num_hidden_layers", len(blocks)),
        **_rare(model),
    }


def _rare(model: nn.Module) -> dict[str, str]:
    beside, widths = convolution_of(model), part_sticks(model)
    found = {"convolution": beside and name_of(type(beside)), "part_sticks": "/".join(map(str, widths))}
    return {word: value for word, value in found.items() if value}


def matches(predicate: dict[str, Any], description: dict[str, Any]) -> bool:
    """True if every word of the predicate has the described value, or one of a list of values. An empty one never.

    A rare word of the description must be in the predicate: what was verified without a convolution, or with widths
    that need no padding, says nothing of a model with them. {"any": [predicates]} is true if one of them is.
    """
    if ANY in predicate:
        return set(predicate) == {ANY} and any(matches(one, description) for one in predicate[ANY])
    return bool(predicate) and not differing(predicate, description)


def differing(predicate: Mapping[str, Any], description: Mapping[str, Any]) -> list[str]:
    """The words, other than `any`, in which the description is not what the predicate asks for, rare ones last."""
    asked = {**predicate, **{word: None for word in RARE if word in description and word not in predicate}}
    return [
        word
        for word, value in asked.items()
        if description.get(word, _NOTHING) not in (value if isinstance(value, list) else [value])
    ]


_NOTHING = object()


def _attention(model: nn.Module) -> dict[str, Any]:
    function = model.config._attn_implementation
    sites = find_attention(model)
    if not sites:
        empty = dict.fromkeys(("attention", "kv_groups", "scale"))
        return {**empty, "head_dim": _fused_head_size(model), "attention_function": function}
    first = sites[0]
    return {
        "attention": first.names.label,
        "head_dim": first.head_dim,
        "kv_groups": min(first.heads // max(1, first.kv_heads), SHARED),
        "scale": first.scale,
        "attention_function": "sdpa" if function == "spyre_contiguous_sdpa" else function,
    }


def _fused_head_size(model: nn.Module) -> int | None:
    """The size of a head where query, key and value are one projection; None if no module of a block says it."""
    sizes = (head_size_of(module) for module in find_blocks(model)[0].module.modules())
    return next((size for size in sizes if size is not None), None)


def _activation(config: PreTrainedConfig) -> str | None:
    named = (getattr(config, field, None) for field in ACTIVATION_FIELDS)
    return next((value for value in named if isinstance(value, str)), None)


def _positions(model: nn.Module) -> str:
    if position_table(model) is not None:
        return "by_id" if counts_positions_by_id(model) else "absolute"
    return "rotary" if has_rotary(model) else "none"


def _norms(block: nn.Module) -> list[nn.Module]:
    return [m for m in block.modules() if type(m).__name__.endswith("Norm")]


def _norm_class(block: nn.Module) -> str | None:
    norms = _norms(block)
    return type(norms[0]).__name__ if norms else None


def norm_placement(block: nn.Module) -> str | None:
    """`post` if a norm is the last module to run in the block, `pre` if the first, None if neither can be told.

    Decided by a run of the block's structure on meta: no weight is read.
    """
    order = _order_of_leaves(block)
    if not order:
        return None
    if type(order[0]).__name__.endswith("Norm"):
        return "pre"
    return "post" if type(order[-1]).__name__.endswith("Norm") else None


def _order_of_leaves(block: nn.Module) -> list[nn.Module]:
    """The block's leaf modules in the order they run, dropout left out; empty if it needs more than hidden states."""
    order: list[nn.Module] = []
    leaves = [m for m in block.modules() if not list(m.children()) and not isinstance(m, nn.Dropout)]
    handles = [m.register_forward_pre_hook(lambda m, args: order.append(m)) for m in leaves]
    linear = next((m for m in leaves if isinstance(m, nn.Linear)), None)
    width = linear.in_features if linear is not None else 1
    held = [*block.named_parameters(remove_duplicate=False), *block.named_buffers(remove_duplicate=False)]
    state = {name: torch.empty_like(tensor, device="meta") for name, tensor in held}
    try:
        with torch.no_grad():
            torch.func.functional_call(block, state, (torch.empty(1, 8, width, device="meta", dtype=_dtype(block)),))
    except (TypeError, ValueError, AttributeError, RuntimeError):
        return []
    finally:
        for handle in handles:
            handle.remove()
    return order


def _dtype(block: nn.Module) -> torch.dtype:
    return next(block.parameters()).dtype
