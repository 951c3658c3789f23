"""P49: DeBERTa's disentangled attention with its gathers as products with one-hot tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from ..errors import PatchDoesNotApply
from ..rebinding import give, global_of
from ..reversal import Reversal
from .base import Patch, PatchContext, Target, Undo, types_of
from .split import head_rows, linear_of

METHODS = ("get_rel_pos", "get_attention_mask", "get_rel_embedding")
BUILDER = "build_relative_position"
POSITION_KEYS, POSITION_QUERIES = (
    ("pos_key_proj", "pos_proj", "key_proj"),
    ("pos_query_proj", "pos_q_proj", "query_proj"),
)
NOT_HANDLED = ("head_logits_proj", "head_weights_proj")


@dataclass(frozen=True)
class OneHotPositions(Patch):
    """Content to position and position to content by E: C2P[i] = (Q_i PK^T) E_i with E_i[m, j] = 1 where t(i-j) = m.

    Buckets, and the one-hot tables [length, 2k, length] of them, are made on the host by the stock functions, and so is
    the mask of pairs. Needs the embeddings on the host (P30): they read the mask as well.
    """

    pattern: ClassVar[str] = "P49"
    mathematics: ClassVar[str] = "gather(C, t)[i, j] = sum over m of C[i, m] * [t(i - j) = m]"
    needs: ClassVar[tuple[str, ...]] = ("P30",)

    def match(self, model: nn.Module) -> list[Target]:
        """The encoder that hands out positions, and the attention modules. Raises PatchDoesNotApply with the reason."""
        encoders = [Target(p, m) for p, m in model.named_modules() if all(hasattr(type(m), n) for n in METHODS)]
        attention = [Target(p, m) for p, m in model.named_modules() if hasattr(m, "pos_att_type")]
        if not encoders or not attention:
            raise PatchDoesNotApply("P49: the model has no disentangled attention")
        extra = [n for t in (*encoders, *attention) for n in NOT_HANDLED if getattr(t.module, n, None) is not None]
        if extra:
            raise PatchDoesNotApply(f"P49: the model has {extra[0]}, which this form does not cover")
        if not all(getattr(t.module, "relative_attention", False) for t in (*encoders, *attention)):
            raise PatchDoesNotApply("P49: the model's attention is not relative")
        return [*encoders, *attention]

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Gives the encoder tables and mask made on the host, and each attention instance the products."""
        undo = Reversal()
        attention = [t.module for t in self.match(model) if hasattr(t.module, "pos_att_type")]
        for target in self.match(model):
            if hasattr(target.module, "pos_att_type"):
                _prepare(target.module, undo)
                give(undo, target.module, disentangled)
            else:
                undo.set_attribute(target.module, "get_rel_pos", HostTables(target.module, attention[0], context))
                undo.set_attribute(target.module, "get_attention_mask", PairMask(context))
        undo.add(context.keep_on_host("attention_mask"))
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The encoder's and the attention's classes, and the function that makes the buckets."""
        targets = self.match(model)
        return [*types_of(targets), global_of(targets[0].module, BUILDER, "get_rel_pos")]


def _prepare(module: Any, undo: Reversal) -> None:
    """One linear each for queries, keys and values, as the later form has them, and the scale of all terms."""
    if "in_proj" in module._modules:
        heads, size = module.num_attention_heads, module.attention_head_size
        rows = head_rows(module.in_proj.weight.detach(), size, heads, heads)
        biases = {"query_proj": module.q_bias, "value_proj": module.v_bias}
        for name, weight in zip(("query_proj", "key_proj", "value_proj"), rows, strict=True):
            parts = {"weight": weight, **({"bias": biases[name].detach()} if name in biases else {})}
            undo.set_module(module, name, linear_of(parts))
        for name in ("q_bias", "v_bias"):
            undo.drop_item(module._parameters, name)
        undo.drop_item(module._modules, "in_proj")
    terms = 1 + sum(name in module.pos_att_type for name in ("c2p", "p2c"))
    undo.set_attribute(module, "scale_of_terms", (module.attention_head_size * terms) ** -0.5)
    undo.set_attribute(module, "position_keys", next(n for n in POSITION_KEYS if n in module._modules))
    undo.set_attribute(module, "position_queries", next(n for n in POSITION_QUERIES if n in module._modules))


@dataclass(frozen=True)
class HostTables:
    """Stands in for the encoder's method that makes relative positions."""

    encoder: Any
    attention: Any
    context: PatchContext

    def __call__(self, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """[length, 2k, length] of 0 and 1, twice: by query row over keys, and by key row over queries."""
        stand_in = torch.empty(hidden_states.shape[:-1], device="cpu")[..., None]
        relative = type(self.encoder).get_rel_pos(self.encoder, stand_in)[0]
        span, first, rows = self._span(hidden_states.shape[1])
        by_query = (relative + span).clamp(0, 2 * span - 1) + first
        by_key = (span - relative).clamp(0, 2 * span - 1) + first
        return self._one_hot(by_query, rows), self._one_hot(by_key, rows)

    def _span(self, length: int) -> tuple[int, int, int]:
        """Distances on each side, the first row of the table that is used, and the rows of the table."""
        rows = self.encoder.rel_embeddings.weight.shape[0]
        if hasattr(self.attention, "pos_ebd_size"):
            return self.attention.pos_ebd_size, 0, rows
        most = self.attention.max_relative_positions
        span = min(length, most)
        return span, most - span, rows

    def _one_hot(self, index: torch.Tensor, rows: int) -> torch.Tensor:
        places = torch.arange(rows, device="cpu")[None, :, None]
        table = (index[:, None, :] == places).to(self.context.dtype)
        return table.contiguous().to(self.context.device)


@dataclass(frozen=True)
class PairMask:
    """Stands in for the encoder's method that makes the mask of pairs."""

    context: PatchContext

    def __call__(self, attention_mask: torch.Tensor) -> torch.Tensor:
        """[batch, length] → [batch, 1, length, length] of the run's dtype: 0 where both are real, else finfo.min/2."""
        real = attention_mask.cpu().bool()
        pairs = real[:, None, None, :] & real[:, None, :, None]
        zeros = torch.zeros(pairs.shape, dtype=self.context.dtype, device="cpu")
        return zeros.masked_fill(~pairs, torch.finfo(self.context.dtype).min / 2).to(self.context.device)


def disentangled(
    self: Any,
    hidden_states: torch.Tensor,
    attention_mask: torch.Tensor,
    output_attentions: bool = False,
    query_states: torch.Tensor | None = None,
    relative_pos: Any = None,
    rel_embeddings: Any = None,
) -> tuple[torch.Tensor, None]:
    """Attention over [batch, length, width] with the terms content-content, content-position, position-content."""
    heads, size = self.num_attention_heads, self.attention_head_size
    by_query, by_key = relative_pos
    q = heads_of_rows(self.query_proj(hidden_states), heads, size)
    k = heads_of_rows(self.key_proj(hidden_states), heads, size)
    v = heads_of_rows(self.value_proj(hidden_states), heads, size)
    scores = q @ k.transpose(2, 3)
    table = rel_embeddings.to(hidden_states.dtype)[None]
    if "c2p" in self.pos_att_type:
        keys = heads_of_rows(getattr(self, self.position_keys)(table), heads, size)
        scores = scores + picked(q @ keys.transpose(2, 3), by_query)
    if "p2c" in self.pos_att_type:
        queries = heads_of_rows(getattr(self, self.position_queries)(table), heads, size)
        scores = scores + picked(k @ queries.transpose(2, 3), by_key).transpose(2, 3)
    weights = torch.softmax(scores * self.scale_of_terms + attention_mask, dim=-1)
    out = (weights @ v).permute(0, 2, 1, 3).contiguous()
    return out.flatten(2), None


def heads_of_rows(x: torch.Tensor, heads: int, size: int) -> torch.Tensor:
    """[batch, length, heads * size] → [batch, heads, length, size], contiguous."""
    return x.view(x.shape[0], x.shape[1], heads, size).permute(0, 2, 1, 3).contiguous()


def picked(scores: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """[batch, heads, length, 2k] and one-hot [length, 2k, length] → [batch, heads, length, length]."""
    batch, heads, length, rows = scores.shape
    by_row = scores.reshape(batch * heads, length, rows).transpose(0, 1).contiguous()
    return torch.bmm(by_row, table).transpose(0, 1).contiguous().view(batch, heads, length, length)
