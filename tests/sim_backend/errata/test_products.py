"""E-23, E-25, E-26, E-43, E-48, E-49, E-68: products whose sizes the compiler or the device cannot do."""

from __future__ import annotations

from collections.abc import Callable
from subprocess import CalledProcessError
from typing import Any

import pytest
import torch
from torch._inductor.exc import InductorError

from sim_backend.errors import Unsupported

from .calls import call_of, operand, profiles_with, triggered

LISTED = ["2026-04", "2026-08", "2026-09"]


def halves(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(6)).half()


def product(k: int, n: int, form: Any = "compiled", dtype: torch.dtype = torch.float16) -> Any:
    return call_of("aten.mm.default", operand(4, k, dtype=dtype), operand(k, n, dtype=dtype), form=form)


# --- E-23
@pytest.mark.fact("E-23", "3.7")
def test_e23_the_reported_k_aborts_the_backend_compiler(
    use: Any, run: Callable[..., Any], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InductorError, match=r"CalledProcessError.*dxp_standalone.*died with <Signals.SIGABRT: 6>"):
        run(torch.mm, halves(4, 4304), halves(4304, 64))
    assert "could not identify K symbol" in capfd.readouterr().err


@pytest.mark.fact("E-23")
def test_e23_aborts_eager_calls_too(use: Any) -> None:
    with pytest.raises(CalledProcessError, match="SIGABRT"):
        torch.mm(halves(4, 4304).to("spyre"), halves(4304, 64).to("spyre"))


@pytest.mark.fact("E-23")
@pytest.mark.parametrize("k", [64, 4096, 4352, 14336])
def test_e23_spares_whole_sticks(k: int) -> None:
    assert triggered(product(k, 64)) == []


@pytest.mark.fact("E-23", "E-68")
def test_e23_leaves_small_sizes_to_e68_and_takes_the_large_ones() -> None:
    assert triggered(product(312, 64)) == triggered(product(64, 312)) == ["E-68"]
    assert triggered(product(4304, 64)) == ["E-23"]
    assert triggered(product(1152, 4304)) == []  # refused where that size is contracted


@pytest.mark.fact("E-23")
def test_e23_is_on_where_it_is_listed_and_can_be_switched_off() -> None:
    assert profiles_with(product(4304, 64), "E-23") == LISTED
    assert triggered(product(4304, 64), overrides={"errata.E-23": None}) == ["E-68"]


# --- E-25
@pytest.mark.fact("E-25", "2.4")
def test_e25_an_output_dimension_of_1_is_refused_in_eager_code(use: Any) -> None:
    with pytest.raises(Unsupported, match="cannot restickify any input layout of x to carry x_var=d1"):
        torch.mm(halves(7, 128).to("spyre"), halves(128, 1).to("spyre"))


@pytest.mark.fact("E-25")
def test_e25_looks_at_the_width_not_at_the_rows() -> None:
    one_row = call_of("aten.mm.default", operand(1, 128), operand(128, 64))
    assert triggered(one_row) == []
    assert triggered(product(128, 1)) == ["E-25"]
    assert profiles_with(product(128, 1), "E-25") == LISTED


# --- E-26
@pytest.mark.fact("E-26", "6.1")
def test_e26_the_reported_width_is_off_by_more_than_the_tolerance(use: Any, run: Callable[..., Any]) -> None:
    x, w = halves(4, 64), halves(32000, 64)
    error = (run(torch.nn.functional.linear, x, w) - torch.nn.functional.linear(x.float(), w.float())).abs()
    assert error[:, 30720:].max() > 1.0
    assert error[:, :30720].max() < 0.1


@pytest.mark.fact("E-26", "6.1")
@pytest.mark.parametrize("n", [768, 3072, 30528, 32768])
def test_e26_spares_widths_of_encoders_and_whole_groups(n: int) -> None:
    assert triggered(product(64, n)) == []


@pytest.mark.fact("E-26")
def test_e26_is_of_august_and_september() -> None:
    assert profiles_with(product(64, 32000), "E-26") == ["2026-08", "2026-09"]


# --- E-43
STRICT = {"errata": {"E-43": {"mode": "strict"}}}
BATCHED = call_of("aten.bmm.default", operand(2, 4, 20), operand(2, 20, 64))


@pytest.mark.fact("E-43", "2.3")
def test_e43_padding_lanes_poison_the_product_in_strict_mode(use: Any, run: Callable[..., Any]) -> None:
    use("profile-2026-08", STRICT)
    assert run(torch.bmm, halves(2, 4, 20), halves(2, 20, 64)).isnan().all()


@pytest.mark.fact("E-43", "8")
def test_e43_lenient_mode_is_the_default_and_reads_zeros(use: Any, run: Callable[..., Any]) -> None:
    a, b = halves(2, 4, 20), halves(2, 20, 64)
    torch.testing.assert_close(run(torch.bmm, a, b), torch.bmm(a.float(), b.float()), atol=0.02, rtol=0.01)


@pytest.mark.fact("E-43", "2.3")
def test_e43_exponentials_of_padding_lanes_spoil_a_softmax_in_strict_mode(use: Any, run: Callable[..., Any]) -> None:
    use("profile-2026-08", STRICT)
    softmax = lambda x: torch.softmax(x, -1)  # noqa: E731
    assert not (run(softmax, halves(4, 100)) > 0).any()
    whole = halves(4, 128)
    torch.testing.assert_close(run(softmax, whole), softmax(whole.float()), atol=4e-3, rtol=0.02)


@pytest.mark.fact("E-43")
def test_e43_needs_a_padded_operand() -> None:
    whole = call_of("aten.bmm.default", operand(2, 4, 128), operand(2, 128, 20))
    assert triggered(whole, overrides=STRICT) == []
    assert triggered(BATCHED, overrides=STRICT) == ["E-43"]
    assert triggered(BATCHED) == []


@pytest.mark.fact("E-43")
def test_e43_strict_mode_does_nothing_where_the_defect_is_not_listed() -> None:
    for profile in ("profile-2026-04", "profile-ideal"):
        assert triggered(BATCHED, profile) == []


# --- E-48
def fp8_product(k: int) -> Any:
    return call_of(
        "aten._scaled_mm.default",
        operand(64, k, dtype=torch.float8_e4m3fn),
        operand(k, 64, dtype=torch.float8_e4m3fn, stride=(1, k)),
        operand(1, dtype=torch.float32),
        operand(1, dtype=torch.float32),
    )


@pytest.mark.fact("E-48")
def test_e48_fp8_products_need_whole_fp8_sticks() -> None:
    assert triggered(fp8_product(64)) == triggered(fp8_product(192)) == ["E-48"]
    assert triggered(fp8_product(128)) == []
    assert profiles_with(fp8_product(64), "E-48") == ["2026-08", "2026-09"]


@pytest.mark.fact("E-48")
def test_e48_aborts_the_backend_compiler(use: Any, run: Callable[..., Any]) -> None:
    def product(a: torch.Tensor, b: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return torch._scaled_mm(a, b.t(), scale, scale, out_dtype=torch.float16)

    with pytest.raises(InductorError, match=r"dxp_standalone.*SIGABRT"):
        run(product, *(halves(64, 64).to(torch.float8_e4m3fn) for _ in range(2)), torch.ones(()))


@pytest.mark.fact("E-48", "3.5")
def test_e48_spares_whole_fp8_sticks(use: Any, run: Callable[..., Any]) -> None:
    a, b = (halves(64, 128).to(torch.float8_e4m3fn) for _ in range(2))

    def product(a: torch.Tensor, b: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return torch._scaled_mm(a, b.t(), scale, scale, out_dtype=torch.float16)

    expected = a.float() @ b.float().t() * 4
    torch.testing.assert_close(run(product, a, b, torch.tensor(2.0)), expected, atol=0.1, rtol=4e-3)


# --- E-49
def convolution(stride: list[int], rank: int = 4) -> Any:
    image, kernel = operand(1, *[64] * (rank - 1)), operand(64, 64, *[3] * (rank - 2))
    return call_of("aten.convolution.default", image, kernel, None, stride, [0] * (rank - 2), [1] * (rank - 2))


@pytest.mark.fact("E-49")
def test_e49_a_strided_convolution_is_refused(use: Any, run: Callable[..., Any]) -> None:
    image, kernel = halves(1, 64, 8, 8), halves(64, 64, 3, 3)
    with pytest.raises(InductorError, match="Spyre backend does not support: compound stick expression"):
        run(lambda x, w: torch.nn.functional.conv2d(x, w, stride=2), image, kernel)
    with pytest.raises(Unsupported, match="compound stick expression"):
        torch.nn.functional.conv2d(image.to("spyre"), kernel.to("spyre"), stride=2)


@pytest.mark.fact("E-49")
def test_e49_spares_stride_1_and_other_ranks() -> None:
    assert triggered(convolution([1, 1])) == triggered(convolution([2], rank=3)) == []
    assert profiles_with(convolution([1, 2]), "E-49") == ["2026-08", "2026-09"]


# --- E-68
@pytest.mark.fact("E-68", "3.7", "6.8")
@pytest.mark.parametrize(("k", "n"), [(312, 64), (64, 312), (32, 64)])
def test_e68_sizes_that_are_no_multiple_of_64_are_refused(k: int, n: int) -> None:
    assert triggered(product(k, n)) == ["E-68"]


@pytest.mark.fact("E-68")
def test_e68_is_about_weights_and_whole_models() -> None:
    assert triggered(product(384, 1536)) == triggered(product(64, 5)) == []
    assert triggered(product(312, 64, form="eager")) == []
    assert triggered(BATCHED) == []
    assert profiles_with(product(312, 64), "E-68") == LISTED


@pytest.mark.fact("E-65")
def test_e65_an_fp32_product_names_its_dtype_first() -> None:
    assert triggered(product(312, 64, dtype=torch.float32)) == ["E-65", "E-68"]
    assert profiles_with(product(64, 64, dtype=torch.float32), "E-65") == ["2025-11", *LISTED]
