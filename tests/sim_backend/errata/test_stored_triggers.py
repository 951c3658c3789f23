"""What was asked is stored with the code, also where the answer was no: per bundle, and per graph for its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from sim_backend import capability
from sim_backend.compiler import runtime

Run = Callable[..., Any]
HALF = torch.zeros(4, 64).half()
WIDE, HEADS = torch.zeros(4, 128).half(), torch.zeros(1, 1, 64, 64).half()
INDEX = torch.tensor([2, 0])


def stored(part: str) -> set[tuple[str, bool]]:
    """(erratum, whether it applied) of the module loaded last: of its "bundles", or of its "graph"."""
    audit = runtime.AUDITS[-1]
    found = audit["errata"] if part == "graph" else [e for kernel in audit["kernels"] for e in kernel["errata"]]
    return {(e["id"], e["applies"]) for e in found}


CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], set[tuple[str, bool]]]] = {
    "a gather": (lambda x, i: x[i], (HALF, INDEX), {("E-27", False), ("E-29", False)}),
    "an indexed copy": (lambda x, i, s: x.index_copy(0, i, s), (HALF, INDEX, HALF[:2]), {("E-28", False)}),
    "a mean along rows": (lambda x: x.mean(-1), (HALF,), {("E-39", False)}),
    "a mean of everything": (lambda x: x.mean(), (HALF,), {("E-39", True)}),
    "a product": (lambda x: x * 2, (HALF,), {("E-52", False)}),
    "a sum": (lambda x: x + x, (HALF,), {("E-20", False), ("E-18", False)}),
    "a sum in bf16": (lambda x: x + x, (HALF.bfloat16(),), {("E-20", True)}),
    "a norm": (lambda x: F.layer_norm(x, x.shape[-1:]), (WIDE,), {("E-18", True)}),
    "a norm of one stick": (lambda x: F.layer_norm(x, x.shape[-1:]), (HALF,), {("E-18", False)}),
    "half a stick": (lambda x: x[:, :32] * 2, (HALF,), {("E-16", False)}),
    "a matrix product": (lambda x: x @ x.t(), (HALF,), {("E-65", False)}),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x), (HEADS,), {("E-65", False), ("E-18", False)}),
    "a slice and a product": (lambda x: x[1:] * 2, (HALF,), {("E-52", False)}),
}


@pytest.mark.fact("6.4", "6.5")
@pytest.mark.parametrize("case", CASES)
def test_a_bundle_keeps_what_was_asked_of_it(case: str, use: Any, run: Run) -> None:
    function, arguments, expected = CASES[case]
    run(function, *arguments)
    assert expected <= stored("bundles")


@pytest.mark.fact("E-40", "E-50")
def test_rules_of_spring_are_asked_in_spring_only(use: Any, run: Run) -> None:
    run(lambda x: (x - 1).sum(-1), HALF)
    assert not {"E-40", "E-50"} & {name for name, _ in stored("bundles")}
    use("profile-2026-04")
    run(lambda x: (x - 1).sum(-1), HALF)
    assert {("E-40", False), ("E-50", False)} <= stored("bundles")


@pytest.mark.fact("E-31")
def test_a_graph_keeps_what_was_asked_of_its_inputs(use: Any) -> None:
    held = HALF.to("spyre")
    for view, applies in ((held, False), (held[2:], True)):
        torch._dynamo.reset()
        torch.compile(lambda x: x + x, fullgraph=True, dynamic=False)(view)
        assert ("E-31", applies) in stored("graph")


class FromSecondRow(torch.nn.Module):
    """A block that is given a view with an offset, or a copy of it."""

    def __init__(self, copied: bool) -> None:
        super().__init__()
        self.layer = torch.nn.ModuleList([torch.nn.LeakyReLU(0.0)])
        self.copied = copied

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rest = x[1:].clone() if self.copied else x[1:]
        result: torch.Tensor = self.layer[0](rest)
        return result


@pytest.mark.fact("E-31")
@pytest.mark.parametrize("copied", [False, True])
def test_a_report_predicts_an_offset_view_given_to_a_block(copied: bool) -> None:
    report = capability(FromSecondRow(copied), {"x": HALF}, "profile-2026-08")
    assert [(f.predicted, f.place) for f in report.predicted] == ([] if copied else [("E-31", "block")])
