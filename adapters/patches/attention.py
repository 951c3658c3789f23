"""P41 to P43 and P55: attention written out, with its keys grouped instead of repeated."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import eager_mask

from ..errors import PatchDoesNotApply
from ..rebinding import calls_by_name
from ..reversal import Reversal
from .base import Patch, PatchContext, Target, Undo, types_of

INTERFACE = "ALL_ATTENTION_FUNCTIONS"
STOCK = ("sdpa", "eager")


def written_out(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    position_bias: torch.Tensor | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """softmax(cap(q k^T s) + bias + mask) v; q [batch, heads, length, size], k and v with as many or fewer heads."""
    weights = _weights(query, key, attention_mask, scaling, softcap, position_bias)
    return _answer(weights, value, query), None


def renormalised(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    position_bias: torch.Tensor | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """As `written_out`, for a mask of 0 and one fill: masked weights become 0, the rest is divided by its sum."""
    weights = _weights(query, key, attention_mask, scaling, softcap, position_bias)
    if attention_mask is not None:
        allowed = torch.exp(_by_group(attention_mask, query, key).clamp(min=FORBIDDEN))
        weights = weights * allowed
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return _answer(weights, value, query), None


FORBIDDEN = -1000.0
"""exp of it is 0 in every dtype the device has, and it is a number in all of them."""


def grouped(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Fused attention with the queries of one group as rows beside each other: keys are not repeated."""
    folded = _folded(query, key)
    mask = None if attention_mask is None else _by_group(attention_mask, query, key)
    causal = attention_mask is None and query.shape[2] > 1 and getattr(module, "is_causal", False)
    if causal:
        raise PatchDoesNotApply("P55: grouped attention needs a mask; P40 or P45 makes one")
    out = F.scaled_dot_product_attention(folded, key.contiguous(), value.contiguous(), attn_mask=mask, scale=scaling)
    return _unfolded(out, query), None


def _weights(query: torch.Tensor, key: torch.Tensor, mask: Any, scaling: Any, cap: Any, bias: Any) -> torch.Tensor:
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = (_folded(query, key) @ key.contiguous().transpose(2, 3)) * scale
    scores = scores if cap is None else torch.tanh(scores / cap) * cap
    for added in (bias, mask):
        scores = scores if added is None else scores + _by_group(added, query, key)
    return torch.softmax(scores, dim=-1)


def _folded(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """[batch, heads, length, size] → [batch, key heads, group * length, size]."""
    batch, _, _, size = query.shape
    return query.contiguous().reshape(batch, key.shape[1], -1, size)


def _unfolded(out: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """[batch, key heads, group * length, size] → [batch, length, heads, size], contiguous."""
    return out.reshape(query.shape[0], query.shape[1], query.shape[2], -1).transpose(1, 2).contiguous()


def _answer(weights: torch.Tensor, value: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    return _unfolded(weights @ value.contiguous(), query)


def _by_group(added: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """A mask [batch, 1, length, length], or one per head, for folded queries."""
    group = query.shape[1] // key.shape[1]
    if group == 1:
        return added
    if added.shape[1] == 1:
        return torch.cat([added] * group, dim=2)  # `repeat` would leave the graph for the CPU
    return added.reshape(added.shape[0], key.shape[1], -1, added.shape[-1])


@dataclass(frozen=True)
class ExplicitAttention(Patch):
    """Registers one more attention function under a name of its own and lets this model's own config name it.

    The registration is additive and leaves with its last user; the model gets a copy of its config.
    """

    pattern: ClassVar[str] = "P42"
    mathematics: ClassVar[str] = "O = softmax(cap(Q K^T s) + M) V, the queries of one group as rows beside each other"
    conflicts: ClassVar[tuple[str, ...]] = ("P41", "P42", "P54", "P55")
    name: ClassVar[str] = "spyre_written_out"
    function: ClassVar[Any] = staticmethod(written_out)

    def match(self, model: nn.Module) -> list[Target]:
        """The modules that ask the interface for their attention function. Raises PatchDoesNotApply if none does."""
        if model.config._attn_implementation not in STOCK:
            raise PatchDoesNotApply(f"{self.pattern}: the model's attention is {model.config._attn_implementation!r}")
        targets = [Target(p, m) for p, m in model.named_modules() if calls_by_name(m, INTERFACE)]
        if not targets:
            raise PatchDoesNotApply(f"{self.pattern}: no module of the model asks the attention interface")
        return targets

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Copies the config, names the function in the copy and puts the copy where the original was."""
        undo = Reversal()
        targets = self.match(model)
        undo.add(_register(self.name, self.function))
        for original in {id(t.module.config): t.module.config for t in targets}.values():
            changed = copy.copy(original)
            changed._attn_implementation_internal = self.name
            for module in model.modules():
                if module.__dict__.get("config") is original:
                    undo.set_attribute(module, "config", changed)
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The attention classes and the stock function."""
        return [*types_of(self.match(model)), sdpa_attention_forward]


@dataclass(frozen=True)
class RenormalisedAttention(ExplicitAttention):
    """Attention whose masked weights are 0, whatever the device's softmax leaves there."""

    pattern: ClassVar[str] = "P41"
    mathematics: ClassVar[str] = "weights of masked pairs are 0 already: times the 0/1 mask, divided by their sum"
    name: ClassVar[str] = "spyre_renormalised"
    function: ClassVar[Any] = staticmethod(renormalised)


@dataclass(frozen=True)
class GroupedAttention(ExplicitAttention):
    """Fused attention that reads grouped keys and values without repeating them."""

    pattern: ClassVar[str] = "P55"
    mathematics: ClassVar[str] = "the queries of one group share keys and values: rows beside each other"
    name: ClassVar[str] = "spyre_grouped"
    function: ClassVar[Any] = staticmethod(grouped)

    def match(self, model: nn.Module) -> list[Target]:
        """As for any attention function. Raises PatchDoesNotApply for a soft cap, which fused attention lacks."""
        if getattr(model.config, "attn_logit_softcapping", None):
            raise PatchDoesNotApply("P55: fused attention has no soft cap; P42 writes it out")
        return super().match(model)


_users: dict[str, int] = {}


def _register(name: str, function: Any) -> Undo:
    """Registers function and mask under `name`; the result removes them when the last user leaves."""
    _users[name] = _users.get(name, 0) + 1
    AttentionInterface.register(name, function)
    AttentionMaskInterface.register(name, eager_mask)

    def leave() -> None:
        _users[name] -= 1
        if not _users[name]:
            AttentionInterface._global_mapping.pop(name, None)
            AttentionMaskInterface._global_mapping.pop(name, None)

    return leave
