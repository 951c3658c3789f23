"""E-08, E-10, E-11: pow with a cube, the power -0.5, and a tensor exponent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from sim_backend.errata.eager import apply
from sim_backend.errata.power import power_form
from sim_backend.profiles import load_profile

pytestmark = pytest.mark.fact("E-08", "E-10", "E-11")

X = torch.tensor([[-2.0, -0.5, 1.5, 3.0] * 16]).half()


def cube(x: torch.Tensor) -> torch.Tensor:
    return torch.pow(x, 3)


def test_e08_a_cube_is_the_fourth_power_of_the_magnitude_in_august(use: Any, run: Callable[..., Any]) -> None:
    torch.testing.assert_close(run(cube, X), X.float().abs() ** 4, rtol=2e-3, atol=0)


def test_e08_is_silent(use: Any, run: Callable[..., Any], recwarn: pytest.WarningsRecorder) -> None:
    run(cube, X)
    assert not [w for w in recwarn if "pow" in str(w.message)]


def test_e08_can_be_set_to_raise(use: Any, run: Callable[..., Any]) -> None:
    use("profile-2026-08", {"errata": {"E-08": {"mode": "raise"}}})
    with (
        pytest.warns(UserWarning, match="Compiling unimplemented pow to runtime exception"),
        pytest.raises(RuntimeError, match="Invoked sdsc_fused_pow_0 which contains unimplemented operation pow"),
    ):
        run(cube, X)


def test_e08_is_refused_in_april(use: Any, run: Callable[..., Any]) -> None:
    use("profile-2026-04")
    with (
        pytest.warns(UserWarning, match="Compiling unimplemented pow to runtime exception"),
        pytest.raises(RuntimeError, match="Invoked sdsc_fused_pow_0 which contains unimplemented operation pow"),
    ):
        run(cube, X)


@pytest.mark.parametrize("profile", ["profile-2026-09", "profile-ideal"])
def test_e08_is_gone_in_september_and_on_the_ideal_device(profile: str, use: Any, run: Callable[..., Any]) -> None:
    use(profile)
    torch.testing.assert_close(run(cube, X), X.float() ** 3, rtol=2e-3, atol=0)


def test_e08_spares_the_product(use: Any, run: Callable[..., Any]) -> None:
    torch.testing.assert_close(run(lambda x: x * x * x, X), X.float() ** 3, rtol=2e-3, atol=0)


@pytest.mark.parametrize("profile", ["profile-2026-04", "profile-2026-08", "profile-2026-09"])
def test_a_square_is_a_product_everywhere(profile: str, use: Any, run: Callable[..., Any]) -> None:
    use(profile)
    torch.testing.assert_close(run(lambda x: x**2, X), X.float() ** 2, rtol=2e-3, atol=0)


@pytest.mark.parametrize("profile", ["profile-2026-04", "profile-2026-08"])
def test_e10_the_power_minus_one_half_is_unimplemented(profile: str, use: Any, run: Callable[..., Any]) -> None:
    use(profile)
    with pytest.warns(UserWarning, match="unimplemented pow"), pytest.raises(RuntimeError, match="unimplemented"):
        run(lambda x: x**-0.5, X.abs())


def test_e10_is_gone_in_september(use: Any, run: Callable[..., Any]) -> None:
    use("profile-2026-09")
    torch.testing.assert_close(run(lambda x: x**-0.5, X.abs()), X.float().abs() ** -0.5, rtol=2e-3, atol=0)


@pytest.mark.parametrize("profile", ["profile-2026-04", "profile-2026-08", "profile-2026-09"])
def test_e11_a_tensor_exponent_is_unimplemented_in_every_profile(
    profile: str, use: Any, run: Callable[..., Any]
) -> None:
    use(profile)
    with pytest.warns(UserWarning, match="unimplemented pow"), pytest.raises(RuntimeError, match="unimplemented"):
        run(torch.pow, X.abs(), X)


def test_e11_is_off_on_the_ideal_device(use: Any, run: Callable[..., Any]) -> None:
    use("profile-ideal")
    expected = X.float().abs() ** X.float()
    torch.testing.assert_close(run(torch.pow, X.abs(), X), expected, rtol=2e-3, atol=0)


@pytest.mark.parametrize("exponent", [0.0, 1.0, -1.0, 0.5, -0.5, 4.0, 5.0, -3.0, 1.7])
def test_september_decomposes_every_exponent(exponent: float, use: Any, run: Callable[..., Any]) -> None:
    use("profile-2026-09")
    x = X.abs()
    torch.testing.assert_close(run(lambda v: v**exponent, x), x.float() ** exponent, rtol=2e-2, atol=0)


def test_eager_calls_without_a_defect_are_left_alone(use: Any) -> None:
    marker = object()
    assert apply("aten.pow.Tensor_Scalar", (X, 2), {}, lambda: marker) is marker
    assert apply("aten.add.Tensor", (X, X), {}, lambda: marker) is marker


def test_e10_raises_in_eager_calls(use: Any) -> None:
    with pytest.raises(RuntimeError, match="unimplemented operation pow"):
        torch.pow(X.to("spyre"), -0.5)


def test_other_exponents_are_unimplemented_in_eager_calls(use: Any) -> None:
    with pytest.raises(RuntimeError, match="unimplemented operation pow"):
        torch.pow(X.to("spyre"), 4)


@pytest.mark.parametrize(
    ("profile", "exponent", "form"),
    [
        ("profile-2026-08", 3.0, "cube"),
        ("profile-2026-08", 4.0, "unimplemented"),
        ("profile-2026-08", None, "unimplemented"),
        ("profile-ideal", None, "native"),
        ("profile-2026-09", 3.0, "decompose"),
    ],
)
def test_the_form_of_a_power(profile: str, exponent: float | None, form: str) -> None:
    assert power_form(load_profile(profile), exponent) == form


def test_with_e08_switched_off_a_cube_is_native() -> None:
    assert power_form(load_profile(overrides={"errata.E-08": None}), 3.0) == "native"
