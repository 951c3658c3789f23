"""`SentenceTransformer(..., backend="spyre")`: explicit, undoable, and refused when what it wraps has moved.

`enable_sentence_transformers()` wraps three methods, `Transformer._load_config`, `Transformer._load_model` and
`BaseModel._post_init`. For backend "spyre" the first gives the stock class' configuration of a checkpoint under another
name (`remap`), the second loads the stock model on the CPU in fp32 and finds its adapter; the third, when the other
modules are in place, adapts it and pins everything else (pooling, Dense, Normalize) to the host in fp32, on every call.

`model_kwargs` may hold `spyre_manifest` (path of a manifest) and `spyre_options` (keyword arguments of `adapt`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import torch
from torch import nn

from ..adaptation import adapt, check_targets, no_adapter_message
from ..digests import source_digest
from ..errors import PatchTargetMoved, SpyreNoAdapterError, StillAdapted, UndoneOutOfOrder
from ..handle import Handle
from ..releases.lookup import find
from ..releases.manifest import Manifest, load_manifest
from ..remap import PLACES, stock_config
from ..tasks import base_of

BACKEND = "spyre"
PLAN = "_spyre_plan"
HANDLES = "spyre_handles"
MADE_FOR = "6.2.0"
VERIFIED_DIGESTS = {
    "Transformer._load_config": "8e45e8ad669ebf35b4118f3636a9910ea6ad8c8273ca4eab35b5205df7ac2e0f",
    "Transformer._load_model": "17aae5883c419e1a9452b6e64aba6d51c8a17574a1a0375943b87e1c9b91609d",
    "BaseModel._post_init": "416dcc24d6f15f78a9f3b2ae7e7dbb385cf7d72642760f2f17e797065c4f38d8",
    "BaseModel._resolve_inference_device": "ad23c5b85526fbe22e5706a72199636294fd04fcd9fa38ebab0ab67108eb6d4a",
}


class _Wrapped(NamedTuple):
    owner: type
    name: str
    original: Callable[..., Any]
    wrapper: Callable[..., Any]


_wrapped: list[_Wrapped] = []


def enable_sentence_transformers() -> None:
    """Makes `backend="spyre"` known to sentence-transformers in this process. A second call does nothing.

    Raises PatchTargetMoved if a wrapped method is not the one of sentence-transformers 6.2.0, ImportError without it.
    """
    if _wrapped:
        return
    targets = _targets()
    _check_targets(targets)
    wrappers = {
        "Transformer._load_config": _configuring,
        "Transformer._load_model": _loading,
        "BaseModel._post_init": _finishing,
    }
    for label, wrap in wrappers.items():
        owner, name = targets[label]
        original = owner.__dict__[name]
        _wrapped.append(_Wrapped(owner, name, original, wrap(original)))
        setattr(owner, name, _wrapped[-1].wrapper)


def disable_sentence_transformers() -> None:
    """Puts the original methods back. Models that were made stay adapted until their `spyre_handles[0].undo()`.

    Raises UndoneOutOfOrder, and puts nothing back, if somebody has wrapped one of the methods since.
    """
    for each in _wrapped:
        if each.owner.__dict__.get(each.name) is not each.wrapper:
            raise UndoneOutOfOrder(
                f"{each.owner.__name__}.{each.name} was changed after enable_sentence_transformers(); "
                "take that change back first"
            )
    while _wrapped:
        owner, name, original, _ = _wrapped.pop()
        setattr(owner, name, original)


def _targets() -> dict[str, tuple[type, str]]:
    from sentence_transformers.base.model import BaseModel
    from sentence_transformers.base.modules.transformer import Transformer

    return {
        "Transformer._load_config": (Transformer, "_load_config"),
        "Transformer._load_model": (Transformer, "_load_model"),
        "BaseModel._post_init": (BaseModel, "_post_init"),
        "BaseModel._resolve_inference_device": (BaseModel, "_resolve_inference_device"),
    }


def _check_targets(targets: dict[str, tuple[type, str]]) -> None:
    for label, (owner, name) in targets.items():
        if name not in owner.__dict__ or source_digest(owner.__dict__[name]) != VERIFIED_DIGESTS[label]:
            raise PatchTargetMoved(
                f"sentence-transformers' {label} is not the one of {MADE_FOR}; "
                f"install sentence-transformers {MADE_FOR} or a newer spyre-adapters"
            )


def _configuring(original: Callable[..., Any]) -> Callable[..., Any]:
    def _load_config(self: nn.Module, path: str, backend: str, config_kwargs: dict[str, Any]) -> tuple[Any, bool]:
        places = {k: v for k, v in config_kwargs.items() if k in PLACES}
        found = stock_config(path, **places) if backend == BACKEND else None
        if found is None or found[1]:
            given: tuple[Any, bool] = original(self, path, backend, config_kwargs)
            return given
        return found[0], False

    return _load_config


def _loading(original: Callable[..., Any]) -> Callable[..., Any]:
    def _load_model(
        self: nn.Module, path: str, task: str, config: Any, backend: str, is_peft_model: bool, **model_kwargs: Any
    ) -> nn.Module:
        if backend != BACKEND:
            return original(self, path, task, config, backend, is_peft_model, **model_kwargs)
        manifest = model_kwargs.pop("spyre_manifest", None)
        options = model_kwargs.pop("spyre_options", {})
        model_kwargs = {k: v for k, v in model_kwargs.items() if k not in ("dtype", "torch_dtype", "device_map")}
        model = original(self, path, task, config, "torch", is_peft_model, **model_kwargs, dtype=torch.float32)
        model.__dict__[PLAN] = (_manifest_for(model, manifest, path), options)
        return _pinned(model.eval())

    return _load_model


def _manifest_for(model: nn.Module, path: str | None, name: str) -> Manifest:
    manifest = load_manifest(path) if path is not None else find(model)
    if manifest is None:
        raise SpyreNoAdapterError(no_adapter_message(repr(name)))
    check_targets(base_of(model), manifest)
    return manifest


def _finishing(original: Callable[..., Any]) -> Callable[..., Any]:
    def _post_init(self: nn.Module) -> None:
        original(self)
        if getattr(self, "backend", None) == BACKEND:
            _adapt_parts(self)

    return _post_init


def _adapt_parts(pipeline: nn.Module) -> None:
    """Adapts each loaded transformer of the pipeline and pins the pipeline's device to the host.

    The handles are the pipeline's `spyre_handles`; undoing one takes its model's pin away too, and the pipeline may be
    copied again.
    """
    planned = [module for module in pipeline.modules() if PLAN in module.__dict__]
    pipeline.__dict__[HANDLES] = [_adapt_planned(module) for module in planned]
    for handle in pipeline.__dict__[HANDLES]:
        handle.also_undo(lambda: pipeline.__dict__.pop("__deepcopy__", None))
    pipeline.__dict__["_resolve_inference_device"] = lambda device=None: _on_host(pipeline)
    pipeline.__dict__["__deepcopy__"] = lambda memo: _refuse_copy(pipeline)
    _on_host(pipeline)


def _adapt_planned(model: nn.Module) -> Handle:
    manifest, options = model.__dict__.pop(PLAN)
    handle = adapt(model, manifest=manifest, **options)
    handle.also_undo(lambda: model.__dict__.pop("_apply", None))
    return handle


def _refuse_copy(pipeline: nn.Module) -> NoReturn:
    raise StillAdapted(f"this {type(pipeline).__name__} is adapted and cannot be copied; load it once more instead")


def _on_host(pipeline: nn.Module) -> torch.device:
    """Moves every part but the pinned model to the CPU in fp32; answers sentence-transformers' "which device?"."""
    pipeline.to(device="cpu", dtype=torch.float32)
    return torch.device("cpu")


def _pinned(model: nn.Module) -> nn.Module:
    """The model, deaf to `.to()` on what holds it: `adapt` alone places its weights."""
    model.__dict__["_apply"] = lambda fn, recurse=True: model
    return model
