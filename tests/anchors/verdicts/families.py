"""Stock models taken apart and put together from `parts`: per family its blocks, tables, masks and norms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from anchors.verdicts.parts import (
    MASKED,
    Attention,
    FeedForward,
    LayerNorm,
    Linear,
    PostNorm,
    PreNorm,
    RMSNorm,
    plain,
    rotation,
)
from torch import Tensor, nn


@dataclass
class Adapted:
    """What runs on the device: `embedded` comes from the host's tables; `matrices[i]`, `masks[i]` belong to block i."""

    embedded: Tensor
    before: nn.Module
    blocks: list[nn.Module]
    masks: list[Tensor]
    matrices: list[Tensor | None]
    after: nn.Module


Adapt = Callable[[Any, Tensor, Tensor], Adapted]


def padding_mask(mask: Tensor, causal: bool = False) -> Tensor:
    """(batch, length) of ones and zeros as an additive mask (batch, 1, length, length) made on the host."""
    allowed = mask[:, None, None, :].bool().expand(-1, 1, mask.shape[1], -1)
    if causal:
        allowed = allowed & torch.ones(mask.shape[1], mask.shape[1], dtype=torch.bool).tril()
    return torch.where(allowed, 0.0, MASKED)


def _post_norm(layer: Any, q: Any, k: Any, v: Any, o: Any, norm: Any, dim: int) -> PostNorm:
    attention = Attention(q, k, v, o, dim, max(dim, 64), dim**-0.5, rotates=False)
    up, down = plain(layer.intermediate.dense), plain(layer.output.dense)
    return PostNorm(attention, FeedForward(up, down, "gelu"), LayerNorm(norm), LayerNorm(layer.output.LayerNorm))


def bert(model: Any, ids: Tensor, mask: Tensor) -> Adapted:
    """BERT and XLM-R: the token type is one row, added as a broadcast (E-71)."""
    tables, dim = model.embeddings, model.config.hidden_size // model.config.num_attention_heads
    first = model.config.pad_token_id + 1 if model.config.model_type == "xlm-roberta" else 0
    positions = tables.position_embeddings.weight[first : first + ids.shape[1]]
    embedded = tables.word_embeddings.weight[ids] + positions + tables.token_type_embeddings.weight[0]
    blocks: list[nn.Module] = []
    for layer in model.encoder.layer:
        inner, outer = layer.attention.self, layer.attention.output
        blocks.append(_post_norm(layer, inner.query, inner.key, inner.value, outer.dense, outer.LayerNorm, dim))
    masks, none = [padding_mask(mask)] * len(blocks), [None] * len(blocks)
    return Adapted(embedded, LayerNorm(tables.LayerNorm), blocks, masks, none, nn.Identity())


def mpnet(model: Any, ids: Tensor, mask: Tensor) -> Adapted:
    """The relative bias is worked out on the host and added to the mask."""
    tables, dim = model.embeddings, model.config.hidden_size // model.config.num_attention_heads
    positions = tables.position_embeddings.weight[2 : 2 + ids.shape[1]]
    embedded = tables.word_embeddings.weight[ids] + positions
    bias = model.encoder.compute_position_bias(embedded).expand(ids.shape[0], -1, -1, -1)
    blocks: list[nn.Module] = []
    for layer in model.encoder.layer:
        inner = layer.attention.attn
        blocks.append(_post_norm(layer, inner.q, inner.k, inner.v, inner.o, layer.attention.LayerNorm, dim))
    masks, none = [(padding_mask(mask) + bias).contiguous()] * len(blocks), [None] * len(blocks)
    return Adapted(embedded, LayerNorm(tables.LayerNorm), blocks, masks, none, nn.Identity())


def modernbert(model: Any, ids: Tensor, mask: Tensor) -> Adapted:
    """Heads padded to 128, fused weights cut on the host, a rotation per layer kind. Windows are wider than a text."""
    config = model.config
    dim, heads = config.hidden_size // config.num_attention_heads, config.num_attention_heads
    blocks: list[nn.Module] = []
    for layer in model.layers:
        q, k, v = (Linear(w, None) for w in layer.attn.Wqkv.weight.view(3, heads * dim, -1))
        attention = Attention(q, k, v, layer.attn.Wo, dim, 128, dim**-0.5, rotates=True)
        act, gate = (Linear(w, None) for w in layer.mlp.Wi.weight.chunk(2))
        feed_forward = FeedForward(gate, plain(layer.mlp.Wo), "gelu", gate=act)
        first = None if isinstance(layer.attn_norm, nn.Identity) else LayerNorm(layer.attn_norm)
        blocks.append(PreNorm(attention, feed_forward, (first, LayerNorm(layer.mlp_norm))))
    matrices = _matrices(model, config.layer_types, ids.shape[1], 128)
    masks = [padding_mask(mask)] * len(blocks)
    tables = model.embeddings
    return Adapted(
        tables.tok_embeddings.weight[ids], LayerNorm(tables.norm), blocks, masks, matrices, LayerNorm(model.final_norm)
    )


def _matrices(model: Any, kinds: list[str], length: int, padded: int) -> list[Tensor | None]:
    rope = model.rotary_emb
    made = {k: rotation(getattr(rope, f"{k}_inv_freq"), length, padded) for k in set(kinds)}
    return [made[k] for k in kinds]


def _gated(mlp: Any, activation: str) -> FeedForward:
    return FeedForward(plain(mlp.up_proj), plain(mlp.down_proj), activation, gate=plain(mlp.gate_proj))


def decoder(model: Any, ids: Tensor, mask: Tensor) -> Adapted:
    """Qwen2, Qwen3 and Mistral: causal, padded on the left, query/key norms where the stock model has them."""
    config, dim = model.config, model.layers[0].self_attn.head_dim
    blocks: list[nn.Module] = []
    for layer in model.layers:
        inner, eps = layer.self_attn, config.rms_norm_eps
        norms = (RMSNorm(inner.q_norm.weight, eps), RMSNorm(inner.k_norm.weight, eps)) if _has_norms(inner) else None
        linears = inner.q_proj, inner.k_proj, inner.v_proj, inner.o_proj
        attention = Attention(*linears, dim, dim, dim**-0.5, rotates=True, norms=norms)
        pair = (RMSNorm(n.weight, eps) for n in (layer.input_layernorm, layer.post_attention_layernorm))
        blocks.append(PreNorm(attention, _gated(layer.mlp, "silu"), tuple(pair)))  # type: ignore[arg-type]
    matrix = rotation(model.rotary_emb.inv_freq, ids.shape[1], dim, model.rotary_emb.attention_scaling)
    after = RMSNorm(model.norm.weight, config.rms_norm_eps)
    masks, matrices = [padding_mask(mask, causal=True)] * len(blocks), [matrix] * len(blocks)
    return Adapted(model.embed_tokens.weight[ids], nn.Identity(), blocks, masks, list(matrices), after)


def _has_norms(attention: Any) -> bool:
    return hasattr(attention, "q_norm")


def gemma(model: Any, ids: Tensor, mask: Tensor) -> Adapted:
    """EmbeddingGemma: norm gains are 1 + weight, norms before and after the branches, no causal mask."""
    config = model.config
    dim, eps = config.head_dim, config.rms_norm_eps

    def norm(stock: Any) -> RMSNorm:
        return RMSNorm(1 + stock.weight, eps)

    blocks: list[nn.Module] = []
    for layer in model.layers:
        inner = layer.self_attn
        linears = inner.q_proj, inner.k_proj, inner.v_proj, inner.o_proj
        norms = norm(inner.q_norm), norm(inner.k_norm)
        attention = Attention(*linears, dim, dim, inner.scaling, rotates=True, norms=norms)
        before = norm(layer.input_layernorm), norm(layer.pre_feedforward_layernorm)
        after = norm(layer.post_attention_layernorm), norm(layer.post_feedforward_layernorm)
        blocks.append(PreNorm(attention, _gated(layer.mlp, "tanh"), before, after))
    matrices, masks = _matrices(model, config.layer_types, ids.shape[1], dim), [padding_mask(mask)] * len(blocks)
    return Adapted(model.embed_tokens(ids), nn.Identity(), blocks, masks, matrices, norm(model.norm))
