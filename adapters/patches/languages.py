"""P46: one language's adapter instead of a choice by row."""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from ..errors import PatchDoesNotApply, PatchParameters
from ..reversal import Reversal
from .base import PHASE_COMPLETE, HostCall, Patch, PatchContext, Target, Undo, types_of

METHOD, ADAPTERS, IDS = "lang_adapter", "adapter_modules", "lang_ids"


@dataclass(frozen=True)
class OneLanguage(Patch):
    """Runs the adapter of one language for every row: no boolean index. A call that names languages is refused.

    `language` is a key of the adapters; empty means the config's default.
    """

    pattern: ClassVar[str] = "P46"
    mathematics: ClassVar[str] = "where all rows are of one language only that language's adapter writes"

    language: str = ""

    def match(self, model: nn.Module) -> list[Target]:
        """The modules with adapters by language. Raises PatchDoesNotApply or PatchParameters with the reason."""
        targets = [Target(p, m) for p, m in model.named_modules() if hasattr(type(m), METHOD) and hasattr(m, ADAPTERS)]
        if not targets:
            raise PatchDoesNotApply("P46: no module of the model has adapters by language")
        language = self._language(model)
        if any(language not in _adapters(t.module) for t in targets):
            raise PatchParameters(f"P46: language {language!r} is not one of {sorted(_adapters(targets[0].module))}")
        return targets

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Gives each instance the method for one language."""
        undo = Reversal()
        for target in self.match(model):
            undo.set_attribute(target.module, "only_language", self._language(model))
            undo.set_attribute(target.module, METHOD, types.MethodType(adapted_alike, target.module))
        undo.add(context.add_stage(PHASE_COMPLETE, without_languages))
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The modules' classes."""
        return types_of(self.match(model))

    def _language(self, model: nn.Module) -> str:
        return self.language or str(getattr(model.config, "default_language", None))


def _adapters(module: Any) -> list[str]:
    return list(getattr(module, ADAPTERS).keys())


def without_languages(inputs: dict[str, Any], call: HostCall) -> dict[str, Any]:
    """The inputs as they are. Raises PatchDoesNotApply if they name languages."""
    if inputs.get(IDS) is not None:
        raise PatchDoesNotApply("P46: the model is adapted to one language; leave out lang_ids")
    return inputs


def adapted_alike(self: Any, lang_ids: torch.Tensor, hidden_states: torch.Tensor) -> torch.Tensor:
    """[batch, length, width]: the one adapter, with norm and residual where the stock flags place them."""
    x = hidden_states
    if self.adapter_layer_norm is not None:
        x = self.adapter_layer_norm(x)
    elif self.adapter_reuse_layer_norm:
        x = self.LayerNorm(x)
    residual = x if self.ln_before_adapter else hidden_states
    return self.adapter_modules[self.only_language](x) + residual
