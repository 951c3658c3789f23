"""`AutoSpyreModel` and its siblings with a head: load a stock checkpoint and adapt it in one call."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import transformers
from torch import nn

from .adaptation import adapt
from .errors import WrongTask
from .remap import PLACES, stock_config
from .tasks import base_of

if TYPE_CHECKING:
    from .releases.manifest import Manifest

HANDLE = "spyre_handle"


class AutoSpyreModel:
    """`from_pretrained` gives the adapted base model; its handle is the attribute `spyre_handle` until `undo()`."""

    stock: ClassVar[str] = "AutoModel"

    def __init__(self) -> None:
        raise TypeError(f"{type(self).__name__} is made by {type(self).__name__}.from_pretrained(...)")

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | PathLike[str],
        *,
        manifest: Manifest | None = None,
        device: str | torch.device = "spyre",
        dtype: torch.dtype | str | None = None,
        compile: bool = True,
        **loading: Any,
    ) -> nn.Module:
        """Loads with the stock class in fp32 on the CPU (safetensors, no remote code), then calls `adapt`.

        `loading` goes to the stock `from_pretrained`; the rest is `adapt`'s. Raises what `adapt` raises, and WrongTask
        if the checkpoint has no such head or brings no weights for it.
        """
        model = _load(cls.stock, str(name_or_path), loading)
        handle = adapt(model, manifest=manifest, device=device, dtype=dtype, compile=compile)
        model.__dict__[HANDLE] = handle
        handle.also_undo(lambda: model.__dict__.pop(HANDLE, None))
        return model


class AutoSpyreModelForMaskedLM(AutoSpyreModel):
    """The same with a masked language model's head."""

    stock = "AutoModelForMaskedLM"


class AutoSpyreModelForQuestionAnswering(AutoSpyreModel):
    """The same with a head for the spans of answers."""

    stock = "AutoModelForQuestionAnswering"


class AutoSpyreModelForSequenceClassification(AutoSpyreModel):
    """The same with a classifier (or reranker) of whole texts."""

    stock = "AutoModelForSequenceClassification"


class AutoSpyreModelForTokenClassification(AutoSpyreModel):
    """The same with a classifier of tokens."""

    stock = "AutoModelForTokenClassification"


def _load(stock: str, name: str, loading: dict[str, Any]) -> nn.Module:
    loading = {**_in_stock_words(stock, name, loading), **loading}
    fixed = {"dtype": torch.float32, "trust_remote_code": False, "use_safetensors": True, "output_loading_info": True}
    try:
        model, found = getattr(transformers, stock).from_pretrained(name, **{**loading, **fixed})
    except ValueError as error:
        raise WrongTask(f"{name!r} cannot be loaded with {stock}: {error}") from error
    missing = sorted(key for key in found["missing_keys"] if _is_of_head(model, key))
    if missing:
        raise WrongTask(
            f"{name!r} has no weights for the head of {type(model).__name__} ({missing[0]} is missing); "
            "load it with AutoSpyreModel, or give a checkpoint that was trained for this task"
        )
    return model.eval()


def _in_stock_words(stock: str, name: str, loading: dict[str, Any]) -> dict[str, Any]:
    """`config` and `key_mapping` for a checkpoint that a stock base class serves under another name; else nothing."""
    if stock != AutoSpyreModel.stock:
        return {}
    found = stock_config(name, **{k: loading[k] for k in PLACES if k in loading})
    if found is None:
        return {}
    config, names = found
    return {"config": config, **({"key_mapping": names} if names else {})}


def _is_of_head(model: nn.Module, key: str) -> bool:
    prefix = getattr(model, "base_model_prefix", "")
    return base_of(model) is not model and not key.startswith(f"{prefix}.")
