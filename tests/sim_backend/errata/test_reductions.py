"""E-39 and E-40: which reductions are wrong, by how much, and which stay right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor.exc import InductorError

Run = Callable[..., Any]


def reported_vector() -> torch.Tensor:
    """The vector of #2400, on the host."""
    generator = torch.Generator().manual_seed(42)
    return (torch.randn(4096, generator=generator) * 0.001).half()


def squares() -> tuple[torch.Tensor, float]:
    """Its squares on the device, and the right mean of them."""
    x = reported_vector()
    held = x.to("spyre")
    return held * held, (x.float() ** 2).mean().item()


# --- E-39
@pytest.mark.fact("E-39", "1.6")
def test_e39_the_mean_of_the_reported_vector_is_18_times_too_large() -> None:
    values, right = squares()
    assert values.mean().item() / right == pytest.approx(18.265, rel=0.01)


@pytest.mark.fact("E-39")
def test_e39_its_sum_is_right() -> None:
    values, right = squares()
    assert values.sum().item() / (right * 4096) == pytest.approx(1.0, abs=0.005)


@pytest.mark.fact("E-39")
def test_e39_its_sum_divided_by_the_count_is_2_6_times_too_large() -> None:
    values, right = squares()
    assert (values.sum() / 4096).item() / right == pytest.approx(2.644, rel=0.1)


@pytest.mark.fact("E-39")
def test_e39_its_bf16_mean_is_0_62_of_the_right_one() -> None:
    x = reported_vector().bfloat16().to("spyre")
    _, right = squares()
    assert (x * x).mean().item() / right == pytest.approx(0.62, abs=0.01)


@pytest.mark.fact("E-39")
def test_e39_serves_a_compiled_mean_alone_in_its_graph(use: Any, run: Run) -> None:
    values, right = squares()
    assert run(lambda x: x.mean(), values.cpu().float().half()).item() != pytest.approx(right, rel=0.2)


@pytest.mark.fact("E-39")
def test_e39_spares_values_of_ordinary_size() -> None:
    x = torch.randn(4096, generator=torch.Generator().manual_seed(1)).half().to("spyre")
    assert (x * x).mean().item() == pytest.approx(1.0, abs=0.05)


@pytest.mark.fact("E-39", "7.7")
def test_e39_spares_means_along_rows_and_fused_ones(use: Any, run: Run) -> None:
    x = (torch.randn(4, 4096, generator=torch.Generator().manual_seed(2)) * 0.004).half()
    want = (x.float() ** 2).mean(-1)
    torch.testing.assert_close(run(lambda t: (t * t).mean(-1) * 1024, x), want * 1024, rtol=0.02, atol=0)
    held = x.to("spyre")
    torch.testing.assert_close((held * held).mean(-1).cpu().float(), want, rtol=0.02, atol=6e-8)


@pytest.mark.fact("E-39")
@pytest.mark.parametrize(("profile", "overrides"), [("profile-ideal", {}), ("profile-2026-08", {"errata.E-39": None})])
def test_e39_is_off(profile: str, overrides: dict[str, Any], use: Any, run: Run) -> None:
    use(profile, overrides)
    x = reported_vector()
    right = (x.float() ** 2).mean().item()
    assert run(lambda t: t.mean(), (x * x * 64).half()).item() / right == pytest.approx(64.0, rel=0.05)


# --- E-40
def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0xAFFE)).half()


SPRING = pytest.mark.fact("E-40")


@SPRING
@pytest.mark.parametrize("name", ["sum", "mean"])
@pytest.mark.parametrize("shape", [(2, 3, 2, 2, 64), pytest.param((2, 3, 5, 7, 256), marks=pytest.mark.long)])
def test_e40_all_dimensions_of_rank_5_are_beyond_the_reported_tolerance(
    name: str, shape: tuple[int, ...], use: Any, run: Run
) -> None:
    """The longer shape is the reported one: a serial sum of 53,760 values."""
    use("profile-2026-04")
    x = randn(*shape) * 0.1
    function = getattr(torch, name)
    wrong, right = run(lambda t: function(t, (0, 1, 2, 3, 4)), x).item(), function(x.float()).item()
    assert abs(wrong - right) > 0.1 + 0.1 * abs(right)


@SPRING
def test_e40_spares_rank_4_other_dimensions_and_amax(use: Any, run: Run) -> None:
    use("profile-2026-04")
    x = randn(2, 3, 2, 2, 64) * 0.1
    close = {"rtol": 0.05, "atol": 0.1}  # serial accumulation in 16 bits
    torch.testing.assert_close(run(lambda t: t.sum((0, 1, 2, 3)), x[0]), x[0].float().sum(), **close)
    torch.testing.assert_close(run(lambda t: t.sum((1, 2, 3)), x), x.float().sum((1, 2, 3)), **close)
    torch.testing.assert_close(run(lambda t: t.amax((0, 1, 2, 3, 4)), x), x.float().amax(), **close)


@SPRING
def test_e40_the_mean_along_a_ragged_last_dimension_is_wrong_and_its_sum_right(use: Any, run: Run) -> None:
    use("profile-2026-04")
    x = randn(3, 7, 9)
    right = x.float().mean(2)
    wrong = run(lambda t: t.mean(2), x)
    assert (wrong - right).abs().max() > 0.1 + 0.1 * right.abs().max()
    torch.testing.assert_close(run(lambda t: t.sum(2), x), x.float().sum(2), rtol=0.02, atol=0.02)


@SPRING
def test_e40_spares_the_mean_along_whole_sticks_and_another_dimension(use: Any, run: Run) -> None:
    use("profile-2026-04")
    torch.testing.assert_close(
        run(lambda t: t.mean(2), randn(3, 7, 64)), randn(3, 7, 64).float().mean(2), rtol=0.05, atol=0.01
    )
    torch.testing.assert_close(
        run(lambda t: t.mean(1), randn(3, 7, 9)), randn(3, 7, 9).float().mean(1), rtol=0.05, atol=0.01
    )


@SPRING
def test_e40_the_sum_of_integers_is_zero(use: Any, run: Run) -> None:
    use("profile-2026-04")
    x = torch.arange(1, 13).reshape(2, 2, 3)
    assert not run(lambda t: t.sum(2, keepdim=True), x).any()


@SPRING
def test_e40_the_float32_mean_is_wrong(use: Any, run: Run) -> None:
    use("profile-2026-04")
    x = torch.ones(4, 64)
    assert (run(lambda t: t.mean(-1), x) - 1).abs().min() > 0.1


@SPRING
def test_e40_a_sum_with_another_dtype_is_refused(use: Any, run: Run) -> None:
    use("profile-2026-04")
    with pytest.raises(InductorError, match="Unsupported: Spyre backend does not support: type conversion from"):
        run(lambda t: t.sum(-1, dtype=torch.float32), randn(4, 64))


@SPRING
@pytest.mark.parametrize(("profile", "overrides"), [("profile-2026-08", {}), ("profile-ideal", {})])
def test_e40_is_off(profile: str, overrides: dict[str, Any], use: Any, run: Run) -> None:
    use(profile, overrides)
    x = randn(3, 7, 9)
    torch.testing.assert_close(run(lambda t: t.mean(2), x), x.float().mean(2), rtol=0.02, atol=0.01)
    assert run(lambda t: t.sum(2), torch.ones(2, 2, 3, dtype=torch.int64)).eq(3).all()
    five = randn(2, 3, 2, 2, 64) * 0.1
    torch.testing.assert_close(run(lambda t: t.sum((0, 1, 2, 3, 4)), five), five.float().sum(), rtol=0.02, atol=0.1)
    assert run(lambda t: t.mean(-1), torch.ones(4, 64)).eq(1).all()


@SPRING
def test_e40_switched_off_in_spring_is_right(use: Any, run: Run) -> None:
    use("profile-2026-04", {"errata.E-40": None})
    x = randn(3, 7, 9)
    torch.testing.assert_close(run(lambda t: t.mean(2), x), x.float().mean(2), rtol=0.02, atol=0.01)
