"""P54: queries, keys and values made contiguous before attention."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import fx, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from ..digests import source_of
from ..errors import PatchDoesNotApply
from ..reversal import Reversal
from .base import Patch, PatchContext, Target, Undo, types_of

NAME = "spyre_contiguous_sdpa"
_users: list[object] = []


def contiguous_sdpa(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Stock SDPA attention on contiguous copies of q, k, v [batch, heads, length, head size]."""
    return sdpa_attention_forward(
        module, query.contiguous(), key.contiguous(), value.contiguous(), attention_mask, **kwargs
    )


@dataclass(frozen=True)
class ContiguousAttention(Patch):
    """Registers one more attention function under its own name and lets this model's own config name it.

    The registration is additive and leaves with its last user; the model gets a copy of its config, so that no other
    model that shares the config is touched.
    """

    pattern: ClassVar[str] = "P54"
    mathematics: ClassVar[str] = "a copy in another memory order holds the same values"

    def match(self, model: nn.Module) -> list[Target]:
        """The modules that ask the interface for their attention function. Raises PatchDoesNotApply if none does."""
        if model.config._attn_implementation not in ("sdpa", NAME):
            raise PatchDoesNotApply(f"P54: the model's attention is {model.config._attn_implementation!r}, not sdpa")
        targets = [Target(p, m) for p, m in model.named_modules() if _asks_interface(m)]
        if not targets:
            raise PatchDoesNotApply("P54: no module of the model asks the attention interface")
        return targets

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Copies the config, names the function in the copy and puts the copy where the original was."""
        self.match(model)
        undo = Reversal()
        undo.add(_register())
        original = model.config
        changed = copy.copy(original)
        changed._attn_implementation_internal = NAME
        for module in _holders(model, original):
            undo.set_attribute(module, "config", changed)
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The attention classes and the stock function."""
        return [*types_of(self.match(model)), sdpa_attention_forward]


def _register() -> Undo:
    """Registers function and mask under NAME; the result removes them when the last user leaves."""
    user = object()
    _users.append(user)
    AttentionInterface.register(NAME, contiguous_sdpa)
    AttentionMaskInterface.register(NAME, sdpa_mask)

    def leave() -> None:
        _users.remove(user)
        if not _users:
            AttentionInterface._global_mapping.pop(NAME, None)
            AttentionMaskInterface._global_mapping.pop(NAME, None)

    return leave


def _asks_interface(module: nn.Module) -> bool:
    if any(True for _ in module.children()) and hasattr(module, "config"):
        return "ALL_ATTENTION_FUNCTIONS" in _source_of(type(module))
    return False


def _source_of(cls: type) -> str:
    return "" if issubclass(cls, fx.GraphModule) else source_of(cls)


def _holders(model: nn.Module, config: object) -> Iterable[nn.Module]:
    return (m for m in model.modules() if m.__dict__.get("config") is config)
