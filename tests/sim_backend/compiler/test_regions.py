"""Graph form with nested regions: the flat graph's values, errata, bundle and launch, with each kind compiled once."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._guards import ChainedSource
from torch._inductor.exc import InductorError

import sim_backend
from sim_backend.compiler import runtime

from .test_blocks import Block, block, hidden


class Stack(torch.nn.Module):
    """Post-norm blocks one after the other; stock code, so transposed heads reach attention (E-17)."""

    def __init__(self, layers: int, between: Callable[[torch.Tensor], torch.Tensor] | None = None) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(block(i, contiguous=False) for i in range(layers))
        self.between = between

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x if self.between is None else self.between(x))
        return x


class Reshaping(Block):
    """A block whose result is a view."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.view(2, 64, 128)).view(128, 128)


def flat(model: torch.nn.Module) -> Any:
    return torch.compile(model, fullgraph=True, dynamic=False)


def launched(form: Callable[[torch.nn.Module], Any], model: torch.nn.Module, x: torch.Tensor) -> tuple[Any, dict]:
    """The result's bits and simulated nanoseconds of a second call, and the audit of the graph."""
    torch._dynamo.reset()
    compiled = form(copy.deepcopy(model).half().to("spyre"))
    x = x.half().to("spyre")
    compiled(x)
    begin, end = torch.Event("spyre", enable_timing=True), torch.Event("spyre", enable_timing=True)
    begin.record()
    bits = compiled(x).cpu().view(torch.int16)
    end.record()
    return (bits, begin.elapsed_time(end)), runtime.AUDITS[-1]


def answers(audit: dict[str, Any]) -> set[tuple[Any, ...]]:
    """Every rule asked, its answer and what it saw; without names of buffers and kernels (E-18, E-55)."""
    asked = [*audit["errata"], *(e for kernel in audit["kernels"] for e in kernel["errata"])]
    named = ("E-18", "E-55")
    return {(e["id"], e["applies"], *([] if e["id"] in named else [e["op"], e["detail"]])) for e in asked}


@pytest.mark.fact("4.4", "E-17", "E-18")
def test_regions_change_no_bit_no_erratum_and_no_launch(use: Any) -> None:
    """Five equal layers: the first, whose input comes from outside, the last, whose result leaves, and the others."""
    (plain, time), audit = launched(flat, Stack(5), hidden())
    (result, time_of_regions), audit_of_regions = launched(sim_backend.GraphForm, Stack(5), hidden())
    assert torch.equal(result, plain)
    assert time_of_regions == time
    assert answers(audit_of_regions) == answers(audit)
    assert ("E-18", True) in answers(audit)
    assert ("E-17", True) in {a[:2] for a in answers(audit)}
    assert [t[0::2] for t in audit_of_regions["triggers"]] == [t[0::2] for t in audit["triggers"]]
    assert [k["nodes"] for k in audit["kernels"]] == [5 * k["nodes"] for k in audit_of_regions["kernels"][:1]]
    assert len(audit_of_regions["kernels"]) == 3


@pytest.mark.fact("E-55", "4.4")
def test_the_length_of_a_bundle_is_that_of_all_layers(use: Any) -> None:
    use("profile-2026-08", {"errata": {"E-55": {"longest_bundle": 50}}})
    launched(sim_backend.GraphForm, Stack(2), hidden())
    with pytest.raises(InductorError, match=r"dxp_standalone.*SIGABRT"):
        launched(sim_backend.GraphForm, Stack(3), hidden())


@pytest.mark.filterwarnings("ignore::sim_backend.errors.FallbackWarning")
@pytest.mark.parametrize("between", ["view", "fallback"])
def test_what_a_border_would_hide_is_compiled_in_its_place(between: str, use: Any) -> None:
    steps = {"view": lambda x: x[:, :64], "fallback": lambda x: torch.sin(x)}
    length = 128 if between == "view" else 64
    model = Stack(2, steps[between])
    (plain, _), audit = launched(flat, model, hidden(length))
    (result, _), of_regions = launched(sim_backend.GraphForm, model, hidden(length))
    assert torch.equal(result, plain)
    assert of_regions["kernels"] == audit["kernels"]


def test_a_region_that_returns_a_view_is_compiled_in_its_place(use: Any) -> None:
    model = Stack(0)
    model.layers.extend([Reshaping(contiguous=False).eval().requires_grad_(False) for _ in range(2)])
    (plain, _), audit = launched(flat, model, hidden().view(128, 128))
    (result, _), of_regions = launched(sim_backend.GraphForm, model, hidden().view(128, 128))
    assert torch.equal(result, plain)
    assert of_regions["kernels"] == audit["kernels"]


class Scaled(torch.nn.Module):
    """Takes its factor by name."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(128, 128)

    def forward(self, x: torch.Tensor, *, factor: float) -> torch.Tensor:
        return torch.relu(self.linear(x)) * factor


class Shifted(Scaled):
    """Looks like `Scaled` from outside."""

    def forward(self, x: torch.Tensor, *, factor: float) -> torch.Tensor:
        return torch.relu(self.linear(x)) + factor


class Mixed(torch.nn.Module):
    """Two kinds by turns, one of them called with two factors."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList([Scaled(), Shifted(), Scaled(), Shifted()]).eval().requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, factor in zip(self.layers, (2.0, 0.5, 3.0, 0.5), strict=True):
            x = layer(x, factor=factor)
        return x


def test_kinds_and_named_arguments_are_kept_apart(use: Any) -> None:
    (plain, _), _ = launched(flat, Mixed(), hidden())
    (result, _), _ = launched(sim_backend.GraphForm, Mixed(), hidden())
    assert torch.equal(result, plain)


def test_a_source_is_renamed_once_per_layer(use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    renamed: list[tuple[Any, Any]] = []
    plain = ChainedSource.clone

    def noting(source: Any, rename: Any = None) -> Any:
        if rename is not None:
            renamed.append((source, rename))
        return plain(source, rename)

    monkeypatch.setattr(ChainedSource, "clone", noting)
    sim_backend.GraphForm(Stack(3).half().to("spyre"))(hidden().half().to("spyre"))
    assert ChainedSource.clone is noting
    assert len(renamed) == len(set(renamed)) > 0


def test_a_model_in_graph_form_is_untouched_after_a_call(use: Any) -> None:
    model, forward = Stack(2).half().to("spyre"), Block.forward
    sim_backend.GraphForm(model)(hidden().half().to("spyre"))
    assert Block.forward is forward
    assert all("forward" not in layer.__dict__ for layer in model.layers)
