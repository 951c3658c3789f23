"""vLLM: what its plugin system can take of an adapter, and the entry point `vllm.general_plugins`.

vLLM calls `register` in every process it makes, perhaps several times. Only element-wise patches have a place in vLLM's
registry of `CustomOp` classes: vLLM has its own embeddings, attention, masks and batching, so patches on those have
none, and `MAPPING` says so. Paged attention and several cards are out of scope.

`VLLM_USE_HW_AGNOSTIC=1` (also written `USE_HW_AGNOSTIC=1`) makes vLLM's Transformers backend take layers from
`vllm.model_executor.hw_agnostic.layers` where there is one; the override is then made of that class.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import torch

from ..document import build
from ..errors import PatchTargetMoved
from ..patches.registry import PATTERNS
from ..releases.lookup import bundled_manifests, loaded_manifests

SWITCHES = ("VLLM_USE_HW_AGNOSTIC", "USE_HW_AGNOSTIC")
LAYERS = {True: "vllm.model_executor.hw_agnostic.layers", False: "vllm.model_executor.layers"}


class Place(NamedTuple):
    """Where vLLM takes a pattern: `kind` is "CustomOp", "PluggableLayer" or None, `why` the reason for the latter."""

    kind: str | None
    why: str


class Layer(NamedTuple):
    """A CustomOp of vLLM: its module and class. The out-of-tree registry is keyed by the class's name."""

    module: str
    cls: str


ACTIVATIONS = {
    "gelu_new": Layer("activation", "NewGELU"),
    "gelu_fast": Layer("activation", "FastGELU"),
    "quick_gelu": Layer("activation", "QuickGELU"),
}
"""Activations of transformers that vLLM has as an op of one tensor."""

NO_PLACE = "vLLM builds this part itself; an adapter's host part has no place in its model runner"
MAPPING: dict[str, Place] = {
    **{pattern: Place(None, NO_PLACE) for pattern in PATTERNS},
    "P01": Place("CustomOp", "an activation whose replacement is an operator document of one tensor"),
    "P56": Place(None, "vLLM's own option --dtype decides"),
    "P63": Place(None, "vLLM's scheduler decides the lengths that are compiled"),
}
"""Every pattern of the library and its place."""


def hw_agnostic(environment: Mapping[str, str] = os.environ) -> bool:
    """True if vLLM is told to use its hardware-agnostic layers."""
    return any(environment.get(name, "0").lower() in ("1", "true") for name in SWITCHES)


_registered: set[type] = set()


def register() -> None:
    """The entry point: registers the element-wise patches of loaded and bundled adapters. Safe to repeat.

    Does nothing where vLLM has no such op. Raises PatchTargetMoved if vLLM's op can no longer be replaced.
    """
    for name, document in documents().items():
        layer = ACTIVATIONS[name]
        stock = _layer_class(layer)
        if stock is None or stock in _registered:
            continue
        if not hasattr(stock, "register_oot"):
            raise PatchTargetMoved(f"vLLM's {layer.cls} has no register_oot; install a vLLM this release knows")
        stock.register_oot(name=layer.cls)(_replacement(stock, document))
        _registered.add(stock)


def documents() -> dict[str, dict[str, Any]]:
    """Activation of transformers → operator document that replaces it; loaded adapters before bundled ones."""
    found: dict[str, dict[str, Any]] = {}
    adapters = (*loaded_manifests(), *bundled_manifests())
    for manifest in (adapter.for_family(family) for adapter in adapters for family in adapter.families):
        name = manifest.predicate.get("hidden_act")
        for patch in manifest.patches:
            if patch["pattern"] == "P01" and name in ACTIVATIONS:
                found.setdefault(name, patch["parameters"]["document"])
    return found


def _layer_class(layer: Layer) -> type | None:
    """vLLM's class of the op: the hardware-agnostic one if asked for and there, else its own; None without either."""
    for agnostic in dict.fromkeys((hw_agnostic(), False)):
        try:
            return getattr(import_module(f"{LAYERS[agnostic]}.{layer.module}"), layer.cls)  # type: ignore[no-any-return]
        except (ImportError, AttributeError):
            continue
    return None


def _replacement(stock: type, document: dict[str, Any]) -> type:
    graph = build(document)

    def forward_oot(self: Any, x: torch.Tensor) -> torch.Tensor:
        return graph(x)  # type: ignore[no-any-return]

    return type(f"Spyre{stock.__name__}", (stock,), {"forward_oot": forward_oot, "forward_native": forward_oot})
