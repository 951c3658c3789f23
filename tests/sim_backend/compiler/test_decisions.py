"""What the compiler decided is in every audit and can be printed: layouts, restickifies, conversions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor.exc import InductorError
from torch.nn import functional as F

from sim_backend.compiler import decisions, runtime

A = torch.randn(64, 128, generator=torch.Generator().manual_seed(3)).half()
W = torch.randn(192, 128, generator=torch.Generator().manual_seed(4)).half() / 11


def bundle(run: Callable[..., Any], function: Callable[..., torch.Tensor], *host: torch.Tensor) -> dict[str, Any]:
    run(function, *host)
    (kernel,) = runtime.AUDITS[-1]["kernels"]
    found: dict[str, Any] = kernel
    return found


@pytest.mark.fact("2.2")
def test_the_layout_of_every_buffer_is_recorded(use: Any, run: Callable[..., Any]) -> None:
    layouts = bundle(run, lambda a: a + 1, A)["layouts"].values()
    assert (
        list(layouts)
        == [
            {"device_size": [2, 64, 64], "stride_map": [64, 128, 1], "device_dtype": "SEN169_FP16"},
        ]
        * 2
    )


@pytest.mark.fact("2.4")
def test_a_reduction_along_the_stick_is_sparse_and_another_is_dense(use: Any, run: Callable[..., Any]) -> None:
    along = bundle(run, lambda a: a.sum(-1), A)["layouts"]
    across = bundle(run, lambda a: a.sum(0), A)["layouts"]
    assert [x["device_size"] for x in along.values()] == [[2, 64, 64], [64, 64]]
    assert [x["stride_map"][-1] for x in along.values()] == [1, -1]
    assert [x["device_size"] for x in across.values()] == [[2, 64, 64], [2, 64]]


@pytest.mark.fact("4.8")
def test_operands_along_one_stick_need_no_restickify(use: Any, run: Callable[..., Any]) -> None:
    assert bundle(run, lambda a, b: a * b + a.sum(-1, keepdim=True), A, A)["restickifies"] == []


@pytest.mark.fact("4.8", "2.4")
def test_the_operand_with_another_stick_is_moved(use: Any, run: Callable[..., Any]) -> None:
    (move,) = bundle(run, lambda a, b: a + b.t(), A, A.t().contiguous())["restickifies"]
    assert (move["dtype"], move["source"], move["target"]) == ("float16", "x0", "x1")


@pytest.mark.fact("4.8", "2.3")
def test_a_linear_moves_its_weight_and_a_product_of_rows_does_not(use: Any, run: Callable[..., Any]) -> None:
    (move,) = bundle(run, F.linear, A, W)["restickifies"]
    assert (move["source"], move["target"]) == ("d0", "d1")
    assert bundle(run, torch.mm, A, W.t().contiguous())["restickifies"] == []


@pytest.mark.fact("4.8", "2.4", "3.7")
@pytest.mark.parametrize(("dtype", "name"), [(torch.float32, "IEEE_FP32"), (torch.int64, "IEEE_INT32")])
def test_fp32_and_integers_cannot_be_moved(dtype: torch.dtype, name: str, use: Any, run: Callable[..., Any]) -> None:
    x = torch.arange(64 * 64).view(64, 64).to(dtype)
    with pytest.raises(InductorError, match=rf"Spyre backend does not support: ReStickifyOpHBM on DataFormats\.{name}"):
        run(lambda v: v.t() + v, x)


@pytest.mark.fact("3.6")
def test_conversions_are_counted(use: Any, run: Callable[..., Any]) -> None:
    kernel = bundle(run, lambda a: (a.float() * 2).half(), A)
    assert kernel["conversions"] == {"float16>float32": 1, "float32>float16": 1}


@pytest.mark.fact("5.5")
def test_the_decisions_are_printed_when_asked_for(
    use: Any, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(lambda a, b: a - b.t(), A, A.t().contiguous())
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("SPYRE_LOG_PASSES", "1")
    torch._dynamo.reset()
    run(lambda a, b: a - b.t(), A, A.t().contiguous())
    printed = capsys.readouterr().err
    assert printed.startswith("compiled for profile-2026-08: 1 bundles\nbundle sdsc_fused_")
    assert "operations   sub x1" in printed
    assert "restickify" in printed
    assert "[2, 64, 64] [64, 128, 1] SEN169_FP16" in printed
    assert printed.rstrip() in decisions.describe_all()
