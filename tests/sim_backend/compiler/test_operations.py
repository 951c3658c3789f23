"""Compiled operations equal the CPU's within DL16, fall back with a count, or are refused in the right way."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor.exc import InductorError
from torch.nn import functional as F

from sim_backend.compiler import runtime
from sim_backend.errors import FallbackWarning, Unsupported

GENERATOR = torch.Generator().manual_seed(11)
A = torch.randn(6, 128, generator=GENERATOR).half()
B = torch.randn(6, 128, generator=GENERATOR).half()
W = torch.randn(192, 128, generator=GENERATOR).half() / 11
V = torch.randn(128, generator=GENERATOR).half()

WORKS: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "add": (lambda a, b: a + b, (A, B)),
    "sub with alpha": (lambda a, b: torch.sub(a, b, alpha=2), (A, B)),
    "rsub": (lambda a: 1.0 - a, (A,)),
    "div": (lambda a, b: a / (b.abs() + 1), (A, B)),
    "maximum": (torch.maximum, (A, B)),
    "minimum": (torch.minimum, (A, B)),
    "where": (lambda a, b: torch.where(a > b, a, b), (A, B)),
    "masked_fill": (lambda a: a.masked_fill(a > 0, -4.0), (A,)),
    "clamp": (lambda a: a.clamp(-1, 1), (A,)),
    "clamp_max": (lambda a: a.clamp_max(0.5), (A,)),
    "gelu": (F.gelu, (A,)),
    "gelu tanh": (lambda a: F.gelu(a, approximate="tanh"), (A,)),
    "silu": (F.silu, (A,)),
    "mish": (F.mish, (A,)),
    "softplus": (lambda a: F.softplus(a, 2.0), (A,)),
    "tanh": (torch.tanh, (A,)),
    "exp": (torch.exp, (A,)),
    "softmax": (lambda a: torch.softmax(a, -1), (A,)),
    "log_softmax": (lambda a: torch.log_softmax(a, -1), (A,)),
    "mean": (lambda a: a.mean(-1, keepdim=True) + a, (A,)),
    "sum over rows": (lambda a: a.sum(0), (A,)),
    "amax": (lambda a: a.amax(-1), (A,)),
    "amin": (lambda a: a.amin(-1), (A,)),
    "vector_norm": (lambda a: torch.linalg.vector_norm(a, dim=-1), (A,)),
    "normalize": (lambda a: F.normalize(a, dim=-1), (A,)),
    "linear": (F.linear, (A, W)),
    "linear with bias": (lambda a, w, b: F.linear(a, w, b), (A, W, torch.ones(192).half())),
    "addmm with factors": (lambda c, a, w: torch.addmm(c, a, w.t(), alpha=0.5, beta=2), (torch.ones(192).half(), A, W)),
    "bmm": (torch.bmm, (A.reshape(3, 2, 128), B.reshape(3, 2, 128).transpose(1, 2).contiguous().repeat(1, 1, 32))),
    "layer_norm": (lambda a, v: F.layer_norm(a, (128,), v, v), (A, V)),
    "layer_norm without weight": (lambda a: F.layer_norm(a, (128,)), (A,)),
    "rms_norm": (lambda a, v: F.rms_norm(a, (128,), v), (A, V)),
    "embedding": (lambda i, w: F.embedding(i, w), (torch.tensor([[0, 3], [191, 7]]), W)),
    "index_select": (lambda a, i: a.index_select(0, i), (A, torch.tensor([5, 0]))),
    "index": (lambda a, i: a[i], (A, torch.tensor([1, 3]))),
    "cat of rows": (lambda a, b: torch.cat([a, b], 0), (A, B)),
    "cat of columns": (lambda a, b: torch.cat([a, b], 1), (A, B)),
    "pad by a stick": (lambda a: F.pad(a, (64, 0)), (A,)),
    "slice of sticks": (lambda a: a[:, 64:128] + 1, (A,)),
    "rows": (lambda a: a[2:4] * 2, (A,)),
    "expand": (lambda v, a: v.expand(6, 128) + a, (V, A)),
    "transpose": (lambda a: a.t().contiguous(), (A,)),
    "flip of rows": (lambda a: a.flip(0), (A,)),
    "logical_and inside": (lambda a, b: torch.where((a > 0).logical_and(b > 0), a, b), (A, B)),
    "bfloat16": (lambda a: a * 1.5, (A.bfloat16(),)),
    "triu": (lambda a: torch.triu(a), (A,)),
}  # fmt: skip


@pytest.mark.parametrize("name", WORKS)
def test_fp16_equals_the_cpu_within_dl16(name: str, use: Any, run: Callable[..., Any]) -> None:
    function, host = WORKS[name]
    expected = function(*(t.float() if t.is_floating_point() else t for t in host))
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        result = run(function, *host)
    torch.testing.assert_close(result, expected, atol=0.04, rtol=0.02)
    assert runtime.AUDITS[-1]["fallbacks"] == []


def test_fp32_on_the_ideal_device_equals_the_cpu(use: Any, run: Callable[..., Any]) -> None:
    """All in one graph, which also shows that operations of one bundle do not disturb each other."""
    use("profile-ideal")
    host = [tuple(t.float() if t.is_floating_point() else t for t in operands) for _, operands in WORKS.values()]
    functions, places = [function for function, _ in WORKS.values()], itertools.accumulate(map(len, host), initial=0)
    first = list(places)

    def everything(*operands: torch.Tensor) -> list[torch.Tensor]:
        return [f(*operands[a:b]) for f, a, b in zip(functions, first, first[1:], strict=False)]

    flat = [t.to("spyre") for operands in host for t in operands]
    results = torch.compile(everything, fullgraph=True, dynamic=False)(*flat)
    assert len(runtime.AUDITS[-1]["kernels"]) == 1
    for name, function, operands, result in zip(WORKS, functions, host, results, strict=True):
        expected = function(*operands)
        torch.testing.assert_close(
            result.cpu(), expected, atol=1e-5, rtol=1e-6, msg=lambda text, n=name: f"{n}: {text}"
        )


FALLS_BACK: dict[str, Callable[..., torch.Tensor]] = {
    "aten.sin.default": torch.sin,
    "aten.cos.default": torch.cos,
    "aten.cumsum.default": lambda a: a.cumsum(-1),
    "aten.argmax.default": lambda a: a.argmax(-1),
}


@pytest.mark.parametrize("op", FALLS_BACK)
def test_a_fallback_is_right_warns_and_is_counted(op: str, use: Any, run: Callable[..., Any]) -> None:
    torch.spyre.reset_fallback_counts()
    with pytest.warns(FallbackWarning, match=f"{op} is falling back to cpu"):
        result = run(FALLS_BACK[op], A)
    torch.testing.assert_close(result, FALLS_BACK[op](A.float()), atol=0.04, rtol=0.02)
    assert torch.spyre.fallback_counts() == {op: 1}
    assert runtime.AUDITS[-1]["fallbacks"] == [op]


@pytest.mark.parametrize("ci", ["", "true"])
def test_an_operation_with_an_upstream_decomposition_still_falls_back(
    ci: str, use: Any, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inductor looks at the variable CI there; the device's compiler must not."""
    monkeypatch.setenv("CI", ci)
    torch.spyre.reset_fallback_counts()
    with pytest.warns(FallbackWarning, match="aten.tril.default is falling back to cpu"):
        result = run(torch.tril, A)
    torch.testing.assert_close(result, torch.tril(A.float()), atol=0.01, rtol=0.01)
    assert torch.spyre.fallback_counts() == {"aten.tril.default": 1}


def test_a_fallback_ends_a_bundle(use: Any, run: Callable[..., Any]) -> None:
    with pytest.warns(FallbackWarning):
        run(lambda a: torch.sin(a * 2) + 1, A)
    assert len(runtime.AUDITS[-1]["kernels"]) == 2


def test_without_a_fallback_a_graph_is_one_bundle(use: Any, run: Callable[..., Any]) -> None:
    run(lambda a, w: F.layer_norm(F.gelu(F.linear(a, w)), (192,)) * 2, A, W)
    kernels = runtime.AUDITS[-1]["kernels"]
    assert len(kernels) == 1
    assert {"mm", "gelufwd", "layer_norm", "mul"} <= kernels[0]["ops"].keys()


@pytest.mark.parametrize("function", [torch.erf, torch.log1p, torch.trunc, lambda a: a.std(-1)])
def test_an_operation_the_device_lacks_compiles_to_an_exception(
    function: Callable[..., Any], use: Any, run: Callable[..., Any]
) -> None:
    with (
        pytest.warns(UserWarning, match=r"Compiling unimplemented .* to runtime exception"),
        pytest.raises(RuntimeError, match=r"Invoked sdsc_fused_.* which contains unimplemented operation"),
    ):
        run(function, A)


@pytest.mark.parametrize(
    "function",
    [
        lambda a: torch.sort(a)[0],
        lambda a: torch.stack([a, a]),
        lambda a: torch.roll(a, 1, 0),
        lambda a: torch.remainder(a, 2.0),
        lambda a: a.cummin(0)[0],
    ],
)
def test_what_the_table_refuses_is_refused(function: Callable[..., Any], use: Any, run: Callable[..., Any]) -> None:
    with pytest.raises(InductorError, match="Spyre backend does not support: aten") as caught:
        run(function, A)
    assert isinstance(caught.value.inner_exception, Unsupported)


@pytest.mark.fact("3.4", "3.7")
def test_layer_norm_over_two_dimensions_is_refused(use: Any, run: Callable[..., Any]) -> None:
    with pytest.raises(InductorError, match=r"spyre\.layernorm: unsupported reduction shape \[6, 128\]"):
        run(lambda a: F.layer_norm(a, (6, 128)), A)


@pytest.mark.fact("3.2", "3.7")
@pytest.mark.parametrize("op", [torch.gather, lambda a, d, i: torch.scatter(a, d, i, 0.0)])
def test_an_indexed_operation_has_no_output_layout(op: Callable[..., Any], use: Any, run: Callable[..., Any]) -> None:
    size = (
        r"buf\d+ \(aten\.(gather|scatter).*\): no supported output layout found for any of \d candidate input layouts"
    )
    with pytest.raises(InductorError, match=rf"{size}; output size=\[\d, 128\]"):
        run(lambda a, i: op(a, 0, i), A, torch.zeros(1, 128, dtype=torch.long))


def test_an_unlisted_operation_without_a_lowering_is_never_silent(use: Any, run: Callable[..., Any]) -> None:
    """The trap of inductor-notes 2: it would run on the CPU and count as supported."""
    with pytest.raises(InductorError, match="Spyre backend does not support: aten"):
        run(lambda a: a.cummax(-1)[0], A)


def test_results_beyond_the_range_become_the_merged_code(use: Any, run: Callable[..., Any]) -> None:
    big = torch.full((1, 64), 60000.0).half()
    assert not run(lambda a: a * a * 4, big).isfinite().any()


def test_constants_saturate(use: Any, run: Callable[..., Any]) -> None:
    result = run(lambda a: torch.maximum(a, torch.full_like(a, -float("inf"))), A)
    torch.testing.assert_close(result, A.float(), atol=0, rtol=2e-3)


def test_an_input_written_in_place_is_written(use: Any) -> None:
    x = A.to("spyre")
    torch.compile(lambda a: a.mul_(2), fullgraph=True, dynamic=False)(x)
    torch.testing.assert_close(x.cpu().float(), A.float() * 2, atol=0.01, rtol=2e-3)


def test_a_rounding_follows_every_operation(use: Any, run: Callable[..., Any]) -> None:
    ones = torch.ones(1, 64).half()
    assert (run(lambda a: (a + 2.0**-12) - a, ones) == 0).all()


@pytest.mark.fact("3.3")
def test_an_unimplemented_operation_with_two_results_raises_at_the_call(use: Any, run: Callable[..., Any]) -> None:
    with (
        pytest.warns(UserWarning, match="unimplemented frexp"),
        pytest.raises(RuntimeError, match="unimplemented operation frexp"),
    ):
        run(lambda a: torch.frexp(a)[0], A)


def test_the_log_of_a_sum_over_one_value_compiles(use: Any, run: Callable[..., Any]) -> None:
    torch.testing.assert_close(run(lambda a: torch.logsumexp(a, 0), A[0, 0]), A[0, 0].float(), atol=0.02, rtol=0.01)
