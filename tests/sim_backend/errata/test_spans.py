"""E-24 at code generation, without allocating: published sizes abort, their neighbours do not."""

from __future__ import annotations

import copy
import logging
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torch._inductor.exc import InductorError
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

from sim_backend import capability
from sim_backend.compiler import runtime
from sim_backend.compiler.dynamo import compile_graph
from sim_backend.errata.rule import Call, Operand
from sim_backend.errata.spans import product_problem
from sim_backend.profiles import load_profile
from sim_backend.report import CapabilityReport

pytestmark = pytest.mark.fact("E-24", "4.5")

DIED = r"CalledProcessError: Command '\['dxp_standalone', '--bundle', '-d', .*\]' died with <Signals\.SIGABRT: 6>\."


def head(n: int, k: int) -> Call:
    left = Operand((1, k), (k, 1), 0, torch.float16, k, True)
    right = Operand((k, n), (1, k), 0, torch.float16, n * k, True)
    return Call("aten.mm.default", "aten.linear.default", (left, right), {}, (left, right), None, "compiled", False)


@pytest.mark.parametrize("profile", ["profile-2026-04", "profile-2026-08", "profile-2026-09"])
@pytest.mark.parametrize(
    ("n", "k", "span"),
    [
        (151_936, 2048, "296.75"),
        (131_072, 5120, "320.00"),
        (262_144, 3840, "960.00"),
        (152_000, 2048, None),
        (131_072, 4096, None),
    ],
)
def test_the_published_heads(n: int, k: int, span: str | None, profile: str) -> None:
    problem = product_problem(load_profile(profile), head(n, k))
    expected = f"per-core tensor span {span} MB of B [{k}, {n}] exceeds hardware limit of 256.00 MB"
    assert problem == (expected if span else None)


@pytest.mark.parametrize("profile", ["profile-2025-11", "profile-ideal"])
def test_other_profiles_do_not_have_it(profile: str) -> None:
    assert not load_profile(profile).has("E-24")


def compile_fake(function: Callable[..., Any], *shapes: tuple[int, ...]) -> None:
    """Compile for device tensors of which nothing exists, and run nothing."""

    def compile_only(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        compile_graph(copy.deepcopy(gm), inputs)
        return gm.forward

    with FakeTensorMode():
        operands = [torch.empty(shape, dtype=torch.float16, device="spyre") for shape in shapes]
        torch.compile(function, backend=compile_only, fullgraph=True, dynamic=False)(*operands)


@pytest.mark.fact("3.7")
def test_the_compiler_logs_and_the_backend_dies(
    use: Any, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    before = torch.spyre.memory_allocated()
    with caplog.at_level(logging.WARNING), pytest.raises(InductorError, match=DIED) as caught:
        compile_fake(F.linear, (1, 2048), (151_936, 2048))
    assert isinstance(caught.value.inner_exception, subprocess.CalledProcessError)
    lines = {(r.levelname, r.getMessage()) for r in caplog.records if r.name == "sim_backend.work_division"}
    assert lines == {
        ("WARNING", "Cannot satisfy span limit of 256.00 MB"),
        ("CRITICAL", "per-core tensor span 296.75 MB of B [2048, 151936] exceeds hardware limit of 256.00 MB"),
    }
    assert torch.spyre.memory_allocated() == before


@pytest.mark.fact("4.4")
def test_a_tensor_of_a_loop_counts_too_and_a_reduction_is_not_split(use: Any) -> None:
    rows = (1 << 22, 64)  # 512 MB in one column of sticks
    compile_fake(lambda x: x + 1, rows)
    with pytest.raises(InductorError, match=DIED):
        compile_fake(lambda x: x.sum(0), rows)


def test_a_prime_number_of_rows_cannot_be_split(use: Any) -> None:
    with pytest.raises(InductorError, match=DIED):
        compile_fake(lambda x: x + 1, (2_097_169, 64))
    compile_fake(lambda x: x + 1, (2_097_170, 64))


class Head(nn.Module):
    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2048, 2048, bias=False)])
        self.lm_head = nn.Linear(2048, vocabulary, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lm_head(self.layers[0](x))


def judged(vocabulary: int, **options: Any) -> CapabilityReport:
    with torch.device("meta"):
        model = Head(vocabulary).eval()
    return capability(model, {"x": torch.zeros(4, 2048)}, "profile-2026-08", dtype=torch.float16, **options)


@pytest.mark.parametrize("blocks", [None, ["lm_head"]])
def test_a_report_names_the_head_in_and_outside_a_block(blocks: list[str] | None) -> None:
    (failure,) = judged(151_936, blocks=blocks).failures
    assert (failure.kind, failure.erratum) == ("runtime_abort", "E-24")
    assert "dxp_standalone" in failure.message
    assert "per-core tensor span 296.75 MB" in failure.message
    assert not judged(152_000, blocks=blocks).failures


@pytest.mark.fact("5.5")
def test_fewer_cores_can_be_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    assert product_problem(load_profile(), head(152_000, 2048)) is None
    monkeypatch.setenv("SENCORES", "2")
    assert product_problem(load_profile(), head(152_000, 2048)) is not None


def test_the_widest_span_of_a_bundle_is_in_its_audit(use: Any, run: Callable[..., Any]) -> None:
    run(F.linear, torch.ones(4, 128).half(), torch.ones(192, 128).half())
    (kernel,) = runtime.AUDITS[-1]["kernels"]
    assert kernel["span"] == "0.05 MB of B [128, 192], split {}"
    assert {"id": "E-24", "applies": False, "op": "aten.mm.default", "detail": ""} in kernel["errata"]
