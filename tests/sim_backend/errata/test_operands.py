"""Refusals by dtype or shape: E-25, E-51, E-61, E-65, E-67, E-68, and the fp32 column of facts 3.5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor.exc import InductorError

from sim_backend.errata.eager import apply, judge_call
from sim_backend.errata.operands import dtype_problem
from sim_backend.errors import Unsupported
from sim_backend.profiles import load_profile

IDS = torch.arange(64).reshape(1, 64)


def refused(run: Callable[..., Any], text: str, function: Callable[..., Any], *host: torch.Tensor) -> None:
    with pytest.raises(InductorError, match=text) as caught:
        run(function, *host)
    assert isinstance(caught.value.inner_exception, Unsupported)
    assert "Spyre backend does not support: " in str(caught.value)


def halves(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(5)).half()


@pytest.mark.fact("E-25")
def test_e25_a_product_with_an_output_dimension_of_1_is_refused(use: Any, run: Callable[..., Any]) -> None:
    text = "cannot restickify any input layout of x to carry x_var=d1"
    refused(run, text, torch.mm, halves(7, 128), halves(128, 1))


@pytest.mark.fact("E-25")
def test_e25_is_off(use: Any, run: Callable[..., Any]) -> None:
    use("profile-2026-08", {"errata.E-25": None})
    assert run(torch.mm, halves(7, 128), halves(128, 1)).shape == (7, 1)


@pytest.mark.fact("E-51")
def test_e51_an_integer_compared_with_a_constant_is_refused(use: Any, run: Callable[..., Any]) -> None:
    def chosen(ids: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.where(ids > 5, x, -x)

    refused(run, "greaterthan of torch.int64 with a constant", chosen, IDS, halves(1, 64))


@pytest.mark.fact("E-51")
def test_e51_a_stored_bool_is_refused(use: Any, run: Callable[..., Any]) -> None:
    refused(run, "bool intermediate buf0 as a stored tensor", lambda x: x > 0, halves(4, 64))


@pytest.mark.fact("E-51")
def test_e51_a_bool_used_inside_the_graph_is_legal(use: Any, run: Callable[..., Any]) -> None:
    x = halves(4, 64)
    torch.testing.assert_close(run(lambda v: torch.where(v > 0, v, -v), x), x.float().abs(), rtol=2e-3, atol=0)


@pytest.mark.fact("E-51")
def test_e51_an_int32_subscript_is_refused_in_eager(use: Any) -> None:
    with pytest.raises(Unsupported, match=r"type conversion from torch\.int32 to torch\.int64"):
        apply("aten.index.Tensor", (halves(4, 64), [torch.tensor([1], dtype=torch.int32)]), {}, list)


@pytest.mark.fact("E-51")
def test_e51_an_integer_constant_is_refused_in_eager(use: Any) -> None:
    with pytest.raises(Unsupported, match=r"greaterthan of torch\.int64"):
        apply("aten.gt.Scalar", (IDS, 5), {}, list)


@pytest.mark.fact("E-51")
def test_e51_is_off_on_the_ideal_device(use: Any, run: Callable[..., Any]) -> None:
    use("profile-ideal")
    assert torch.equal(run(lambda ids: ids > 5, IDS), IDS > 5)
    assert apply("aten.gt.Scalar", (IDS, 5), {}, list) == []


def crossed(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.where(a > 0, a, b)


@pytest.mark.fact("E-61")
def test_e61_where_on_operands_broadcast_along_different_dimensions_is_refused(
    use: Any, run: Callable[..., Any]
) -> None:
    refused(run, "where on operands of shapes", crossed, halves(1, 1, 64, 1), halves(1, 1, 1, 64))


@pytest.mark.fact("E-61")
def test_e61_one_broadcast_operand_is_legal(use: Any, run: Callable[..., Any]) -> None:
    a, b = halves(1, 1, 64, 64), halves(1, 1, 1, 64)
    torch.testing.assert_close(run(crossed, a, b), crossed(a.float(), b.float()), rtol=2e-3, atol=0)


@pytest.mark.fact("E-61")
@pytest.mark.parametrize("profile", ["profile-2026-04", "profile-ideal"])
def test_e61_crossed_where_is_off(profile: str, use: Any, run: Callable[..., Any]) -> None:
    use(profile)
    a, b = halves(1, 1, 64, 1), halves(1, 1, 1, 64)
    torch.testing.assert_close(run(crossed, a, b), crossed(a.float(), b.float()), rtol=4e-3, atol=1e-3)


@pytest.mark.fact("E-61")
def test_e61_counts_only_shapes_that_cross() -> None:
    def triggered(*shapes: tuple[int, ...]) -> bool:
        operands = [torch.ones(shape) for shape in shapes]
        return bool(judge_call(load_profile(), "aten.where.self", operands, {}).triggered)

    assert triggered((2, 1, 8, 1), (2, 1, 1, 8), (1,))
    assert not triggered((2, 1, 8, 8), (2, 1, 1, 8), (1,))


@pytest.mark.fact("E-65")
def test_e65_a_float32_product_is_refused(use: Any, run: Callable[..., Any]) -> None:
    refused(run, "batchmatmul on DataFormats.IEEE_FP32", torch.mm, torch.randn(64, 64), torch.randn(64, 64))


@pytest.mark.fact("E-65")
def test_e65_holds_for_batches_and_linear_layers(use: Any, run: Callable[..., Any]) -> None:
    refused(run, "batchmatmul on DataFormats.IEEE_FP32", torch.bmm, torch.randn(2, 64, 64), torch.randn(2, 64, 64))
    linear = torch.nn.functional.linear
    refused(run, "batchmatmul on DataFormats.IEEE_FP32", linear, torch.randn(4, 64), torch.randn(64, 64))


@pytest.mark.fact("E-65")
def test_e65_is_off_on_the_ideal_device(use: Any, run: Callable[..., Any]) -> None:
    use("profile-ideal")
    a, b = torch.randn(64, 64), torch.randn(64, 64)
    torch.testing.assert_close(run(torch.mm, a, b), a @ b, atol=1e-5, rtol=1e-5)


@pytest.mark.fact("E-67")
def test_e67_clamp_min_is_missing_in_eager_until_september() -> None:
    cells = {n: load_profile(n).cell("aten.clamp_min.default", "eager") for n in ("profile-2026-08", "profile-2026-09")}
    assert cells == {"profile-2026-08": "X", "profile-2026-09": "N"}


@pytest.mark.fact("E-67")
def test_e67_clamp_min_compiles(use: Any, run: Callable[..., Any]) -> None:
    x = halves(4, 64)
    torch.testing.assert_close(run(lambda v: v.clamp_min(0.5), x), x.float().clamp_min(0.5), rtol=2e-3, atol=0)


@pytest.mark.fact("E-68")
@pytest.mark.parametrize(("k", "n"), [(312, 64), (64, 312), (32, 64)])
def test_e68_sizes_that_are_no_multiple_of_64_are_refused(k: int, n: int, use: Any, run: Callable[..., Any]) -> None:
    refused(run, "Unsupported stick expression floor", torch.mm, halves(4, k), halves(k, n))


@pytest.mark.fact("E-68")
def test_e68_is_off(use: Any, run: Callable[..., Any]) -> None:
    use("profile-2026-08", {"errata.E-68": None})
    a, b = halves(4, 312), halves(312, 64)
    torch.testing.assert_close(run(torch.mm, a, b), a.float() @ b.float(), atol=0.2, rtol=0.01)


FP32_REFUSED: list[tuple[str, Callable[[torch.Tensor], torch.Tensor]]] = [
    ("gelufwd", torch.nn.functional.gelu),
    ("tanh", torch.tanh),
    ("log", torch.log),
    ("softplus", torch.nn.functional.softplus),
]


@pytest.mark.fact("3.5")
@pytest.mark.parametrize(("opfunc", "function"), FP32_REFUSED)
def test_fp32_does_not_compute_on(
    opfunc: str, function: Callable[..., torch.Tensor], use: Any, run: Callable[..., Any]
) -> None:
    refused(run, f"{opfunc} on DataFormats.IEEE_FP32", function, torch.rand(4, 64) + 0.5)


@pytest.mark.fact("3.5")
@pytest.mark.parametrize(("opfunc", "function"), FP32_REFUSED)
def test_fp16_computes_on(
    opfunc: str, function: Callable[..., torch.Tensor], use: Any, run: Callable[..., Any]
) -> None:
    x = (torch.rand(4, 64) + 0.5).half()
    torch.testing.assert_close(run(function, x), function(x.float()), rtol=4e-3, atol=2e-3)


@pytest.mark.fact("3.5")
@pytest.mark.parametrize("function", [torch.exp, torch.sqrt, torch.sigmoid, torch.nn.functional.silu, torch.abs])
def test_fp32_computes_on(function: Callable[..., torch.Tensor], use: Any, run: Callable[..., Any]) -> None:
    x = torch.rand(4, 64) + 0.5
    torch.testing.assert_close(run(function, x), function(x), rtol=1e-6, atol=1e-6)


@pytest.mark.fact("3.5")
def test_integers_compute_what_goes_through_fp32() -> None:
    profile = load_profile()
    assert dtype_problem(profile, "add", torch.int64) is None
    assert dtype_problem(profile, "sigmoid", torch.int64) == "sigmoid on DataFormats.IEEE_INT32"
    assert dtype_problem(load_profile("profile-2026-04"), "add", torch.int64)


@pytest.mark.fact("3.5")
def test_float64_has_no_format() -> None:
    assert dtype_problem(load_profile(), "add", torch.float64) == "add on DataFormats.INVALID"


@pytest.mark.fact("3.6")
def test_a_conversion_the_device_lacks_is_refused(use: Any, run: Callable[..., Any]) -> None:
    refused(run, "type conversion from torch.int64 to torch.float16", lambda ids: ids.half() * 2, IDS)


@pytest.mark.fact("3.6")
def test_a_conversion_of_the_table_works(use: Any, run: Callable[..., Any]) -> None:
    x = halves(4, 64)
    torch.testing.assert_close(run(lambda v: v.float() + 1, x), x.float() + 1, rtol=2e-3, atol=2e-3)
