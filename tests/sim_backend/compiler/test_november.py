"""The compiler of 2025-11: no constants, no conversions, few loop-level operations (facts 3.3, 3.6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor.exc import InductorError
from torch.nn import functional as F

from sim_backend.compiler import runtime
from sim_backend.compiler.kernel import KernelSource
from sim_backend.compiler.kernel_limits import problems

pytestmark = pytest.mark.fact("3.3", "3.6")
X = torch.linspace(-3, 3, 4 * 64).reshape(4, 64).half()


@pytest.fixture(autouse=True)
def november(use: Callable[..., Any]) -> None:
    use("profile-2025-11")


def test_a_scalar_in_compiled_code_raises(run: Callable[..., Any]) -> None:
    with pytest.raises(InductorError, match="TOOO: implement SDSC generation for constants"):
        run(lambda x: x + 1, X)


def test_a_conversion_is_taken_out_and_the_compiler_says_so(
    run: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    result = run(lambda x: torch.exp(x.float()), X)
    assert "WARNING: NO-OPING torch.float16 -> torch.float32" in capsys.readouterr().out
    torch.testing.assert_close(result, torch.exp(X.float()), rtol=4e-3, atol=0)


@pytest.mark.fact("3.7")
def test_a_kernel_has_one_operation(use: Callable[..., Any], run: Callable[..., Any]) -> None:
    """A scaled difference is one operation of the graph and two of the loop; its constant is let through here."""
    use("profile-2025-11", {"limits.constants": True})
    with pytest.raises(InductorError, match="Spyre backend does not support: multi-op kernel: mul sub"):
        run(lambda x, y: torch.sub(x, y, alpha=2), X, X)


@pytest.mark.fact("3.7")
def test_a_kernel_has_one_output(use: Callable[..., Any], run: Callable[..., Any]) -> None:
    """One operation has one; two that share a kernel, which a setting allows here, have two."""
    use("profile-2025-11", {"limits.ops_per_kernel": 0})
    with pytest.raises(InductorError, match="Spyre backend does not support: multi-output kernel buf0 buf1"):
        torch.compile(lambda x: (torch.exp(x), x + x), fullgraph=True, dynamic=False)(X.to("spyre"))


@pytest.mark.fact("3.7")
def test_a_kernel_without_output_and_a_data_operation_of_two_inputs_are_refused(use: Callable[..., Any]) -> None:
    """No operation of the graph makes such a kernel: its writing is what is asked."""
    november, august = use("profile-2025-11"), use("profile-2026-08")
    nothing = KernelSource(frozenset(), frozenset(), ops=Counter(["exp"]), flats={"arg0": "f0"})
    merging = KernelSource(frozenset(), frozenset(["buf0"]), flats={"arg0": "f0", "arg1": "f1", "buf0": "f2"})
    merging.written.add("buf0")
    assert list(problems(nothing, november)) == ["kernel with no output"]
    assert list(problems(merging, november)) == ["data op has 2 inputs"]
    assert [*problems(nothing, august), *problems(merging, august)] == []


@pytest.mark.fact("3.7")
def test_a_product_has_three_loops_and_dense_operands(run: Callable[..., Any]) -> None:
    rows, square = torch.randn(4, 64, 64).half(), torch.randn(64, 64).half()
    with pytest.raises(InductorError, match=r"matmul range trees \[64, 64\]"):
        run(torch.mm, square[:1], square)
    with pytest.raises(InductorError, match="matmul on non-dense tensors"):
        run(lambda x, w: x.sum(-1) @ w, rows, square)
    assert run(lambda x, w: x.sum(1) @ w, rows, square).shape == (4, 64)  # not along the sticks


@pytest.mark.fact("4.4")
def test_nothing_is_fused(run: Callable[..., Any]) -> None:
    run(lambda x, y: torch.exp(x + y) * x, X, X)
    assert [k["ops"] for k in runtime.AUDITS[-1]["kernels"]] == [{"add": 1}, {"exp": 1}, {"mul": 1}]


@pytest.mark.fact("2.4", "3.7")
def test_a_reduction_takes_the_stick_or_other_dimensions(run: Callable[..., Any]) -> None:
    with pytest.raises(InductorError, match=r"reduction on both stick and non-stick dimensions \[0, 1\]"):
        run(torch.sum, X)
    for dim in (0, 1):
        torch.testing.assert_close(run(lambda x, d=dim: x.sum(d), X), X.float().sum(dim), atol=0.1, rtol=0.01)


@pytest.mark.fact("3.2")
def test_a_transposition_must_change_the_stick(run: Callable[..., Any]) -> None:
    with pytest.raises(InductorError, match="Transposition not changing the stick dimension"):
        run(lambda x: x.transpose(0, 1).contiguous(), X.view(2, 2, 64))


@pytest.mark.fact("3.7")
def test_operands_must_have_one_stick_dimension(run: Callable[..., Any]) -> None:
    square = X.view(4, 64).repeat(16, 1)
    with pytest.raises(InductorError, match="binop with incompatible DCIs"):
        run(lambda x, y: x + y.t(), square, square)


@pytest.mark.fact("3.7")
def test_the_left_operand_of_a_product_must_have_its_sticks_along_k(run: Callable[..., Any]) -> None:
    square = X.view(4, 64).repeat(16, 1)
    torch.testing.assert_close(run(torch.mm, square, square), square.float() @ square.float(), rtol=0.02, atol=0.1)
    with pytest.raises(InductorError, match="matmul stick dimensions mismatch"):
        run(lambda a, b: a.t() @ b, square, square)


def test_silu_is_a_product_with_the_sigmoid(run: Callable[..., Any]) -> None:
    torch.testing.assert_close(run(F.silu, X), F.silu(X.float()), rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("function", [torch.neg, F.gelu, F.mish, torch.maximum, torch.lt])
def test_what_later_is_native_compiles_to_an_exception(function: Callable[..., Any], run: Callable[..., Any]) -> None:
    operands = (X, X) if function in (torch.maximum, torch.lt) else (X,)
    with (
        pytest.warns(UserWarning, match="Compiling unimplemented .* to runtime exception"),
        pytest.raises(RuntimeError, match="which contains unimplemented operation"),
    ):
        run(function, *operands)
