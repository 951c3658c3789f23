"""What an adapted model answers when it is copied, saved, moved or trained: the stock model, or a refusal.

An adapted model holds padded, cast and moved weights. So a copy or a saved file is made of the stock model, which comes
back for as long as that takes; what would change weights or their place underneath the adapter is refused.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NoReturn

from torch import nn

from .errors import StillAdapted
from .reversal import Reversal


def guard(model: nn.Module, undo: Reversal) -> None:
    """Puts the answers on one instance; they leave with `undo`. An `_apply` set on the instance before stays."""
    for name in ("state_dict", "save_pretrained"):
        if hasattr(type(model), name):
            undo.set_attribute(model, name, _as_stock(model, getattr(type(model), name), undo))
    undo.set_attribute(model, "__deepcopy__", _as_stock(model, copy.deepcopy, undo))
    undo.set_attribute(model, "load_state_dict", _refusing(model, "loaded"))
    undo.set_attribute(model, "train", _only_eval(model))
    if "_apply" not in model.__dict__:
        undo.set_attribute(model, "_apply", _refusing(model, "moved or cast"))


def _as_stock(model: nn.Module, function: Callable[..., Any], undo: Reversal) -> Callable[..., Any]:
    def as_stock(*args: Any, **kwargs: Any) -> Any:
        with undo.suspended():
            return function(model, *args, **kwargs)

    return as_stock


def _refusing(model: nn.Module, what: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise StillAdapted(f"{type(model).__name__} is adapted and cannot be {what}; call undo() on its handle first")

    return refuse


def _only_eval(model: nn.Module) -> Callable[[bool], nn.Module]:
    def train(mode: bool = True) -> nn.Module:
        if mode:
            _refusing(model, "trained")()
        return model

    return train
