"""The vLLM plugin against a stand-in of vLLM's documented plugin protocol: CustomOp with an out-of-tree registry."""

from __future__ import annotations

import sys
import tomllib
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import adapters
from adapters.errors import PatchTargetMoved
from adapters.integrations import vllm
from adapters.patches.registry import PATTERNS
from adapters.releases import lookup
from adapters.releases.manifest import Manifest

CUBE = {
    "version": 1,
    "nodes": [
        {"op": "aten.mul.Tensor", "args": [{"ref": 0}, {"ref": 0}]},
        {"op": "aten.mul.Tensor", "args": [{"ref": 1}, {"ref": 0}]},
    ],
    "output": {"ref": 2},
}
P01 = {"pattern": "P01", "parameters": {"module_class": "any", "document": CUBE}}


def custom_op() -> type:
    """vLLM's CustomOp as its documentation describes it: a class name leads to the class that replaces it."""
    replaced: dict[str, type] = {}

    class CustomOp(nn.Module):
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return super().__new__(replaced.get(cls.__name__, cls))

        @classmethod
        def register_oot(cls, *, name: str) -> Callable[[type], type]:
            def decorate(given: type) -> type:
                assert name not in replaced, f"Duplicate op name: {name}"
                replaced[name] = given
                return given

            return decorate

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.forward_oot(x)

    return CustomOp


@pytest.fixture
def vllm_with(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Installs a stand-in whose layer modules exist in the given packages; returns package → its NewGELU."""

    def install(*packages: str) -> dict[str, Any]:
        made = {}
        for package in packages:
            module = types.ModuleType(f"{package}.activation")
            module.NewGELU = made[package] = type("NewGELU", (custom_op(),), {})  # type: ignore[attr-defined]
            monkeypatch.setitem(sys.modules, module.__name__, module)
            parts = package.split(".")
            for i in range(1, len(parts) + 1):
                name = ".".join(parts[:i])
                monkeypatch.setitem(sys.modules, name, sys.modules.get(name) or types.ModuleType(name))
        return made

    predicate = {"hidden_act": "gelu_new"}
    manifest = Manifest("cube", "1", "cube", "profile-2026-08", predicate, (P01,))
    monkeypatch.setattr(lookup, "_loaded", [manifest])
    monkeypatch.setattr(vllm, "_registered", set())
    for switch in vllm.SWITCHES:
        monkeypatch.delenv(switch, raising=False)
    return install


X = torch.tensor([-2.0, 3.0])


def test_an_activation_is_replaced_and_registering_again_changes_nothing(vllm_with: Callable[..., Any]) -> None:
    made = vllm_with(vllm.LAYERS[False])
    vllm.register()
    vllm.register()
    op = made[vllm.LAYERS[False]]()
    assert type(op).__name__ == "SpyreNewGELU"
    assert op(X).tolist() == [-8.0, 27.0]


@pytest.mark.parametrize("switch", ["VLLM_USE_HW_AGNOSTIC", "USE_HW_AGNOSTIC"])
def test_with_the_switch_the_hardware_agnostic_layer_is_replaced(
    switch: str, vllm_with: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(switch, "1")
    made = vllm_with(*vllm.LAYERS.values())
    vllm.register()
    assert type(made[vllm.LAYERS[True]]()).__name__ == "SpyreNewGELU"
    assert type(made[vllm.LAYERS[False]]()).__name__ == "NewGELU"


def test_a_layer_that_is_not_ported_yet_is_replaced_where_it_is(
    vllm_with: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_USE_HW_AGNOSTIC", "1")
    made = vllm_with(vllm.LAYERS[False])
    vllm.register()
    assert type(made[vllm.LAYERS[False]]()).__name__ == "SpyreNewGELU"


def test_without_vllm_or_without_such_a_layer_nothing_happens(vllm_with: Callable[..., Any]) -> None:
    vllm.register()
    assert vllm._registered == set()


def test_a_moved_registry_is_refused(vllm_with: Callable[..., Any]) -> None:
    vllm_with(vllm.LAYERS[False])
    sys.modules[f"{vllm.LAYERS[False]}.activation"].NewGELU = nn.Identity  # type: ignore[attr-defined]
    with pytest.raises(PatchTargetMoved, match="NewGELU has no register_oot"):
        vllm.register()


def test_every_pattern_is_mapped_or_said_to_have_no_place() -> None:
    assert set(vllm.MAPPING) == set(PATTERNS)
    assert all(place.kind in ("CustomOp", "PluggableLayer", None) and place.why for place in vllm.MAPPING.values())


def test_the_distribution_names_the_entry_point() -> None:
    settings = tomllib.loads((Path(adapters.__file__).parent / "pyproject.toml").read_text())
    module, _, function = settings["project"]["entry-points"]["vllm.general_plugins"]["spyre_adapters"].partition(":")
    assert module == vllm.__name__.replace("adapters", "spyre_adapters", 1)
    assert callable(getattr(vllm, function))
