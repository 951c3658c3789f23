"""Patches on a model that capture or binding runs: library patches, drafted code, then placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from .errors import CaptureRefused

CODE = "code"
"""The pattern of drafted code: `parameters` is {"source": "..."} with one function `apply(model)`."""


def apply_code(model: nn.Module, source: str) -> None:
    """Runs drafted code on the model: only ever called inside the sandbox. Raises CaptureRefused."""
    scope: dict[str, Any] = {"torch": torch, "__name__": "drafted"}
    exec(compile(source, "drafted.py", "exec"), scope)  # noqa: S102 - this is what the sandbox is for
    if not callable(scope.get("apply")):
        raise CaptureRefused("the code defines no function `apply(model)`")
    scope["apply"](model)


def place_patched(
    model: nn.Module, patches: Sequence[Mapping[str, Any]], device: torch.device, dtype: torch.dtype
) -> Any:
    """Applies the patches in order and places the model; returns the runner, which takes and returns host tensors."""
    from adapters.patches.base import PatchContext
    from adapters.patches.registry import patch_from
    from adapters.placement import Placement
    from adapters.runner import Runner

    context = PatchContext(device, dtype)
    for data in patches:
        if data["pattern"] != CODE:
            patch_from(data).apply(model, context)
    for data in patches:
        if data["pattern"] == CODE:
            apply_code(model, data["parameters"]["source"])
    placement = Placement(model, context.device, context.dtype, context.host_modules, context.host_inputs)
    placement.apply()
    return Runner(model, context, placement)
