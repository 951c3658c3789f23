"""Facts 6.2, pointwise operations: powers, comparisons, softplus, specials, floor and ceil."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from anchors.published import Raises, Right, Wrong, unimplemented
from anchors.stimulus import APR, AUG, NOV, SEP, Pair, both, both_eagerly, compiled, eager, exact, normal, stimulus


def exact_range(low: float, high: float, count: int) -> torch.Tensor:
    return exact(torch.linspace(low, high, count))


LARGEST = 2.140  # |x|^4 - x^3 is 30.57 at its negative, the size reported with E-08


@stimulus("E-08", published={AUG: Wrong({"max": 30.57}, band=1.05), SEP: Right(0.05), APR: unimplemented("pow")})
def cube_by_pow_compiled() -> Pair:
    return both(lambda x: torch.pow(x, 3), exact_range(-LARGEST, LARGEST, 64))


@stimulus("E-08", published={AUG: Wrong({"max": 30.57}, band=1.05), SEP: Right(0.05), APR: unimplemented("pow")})
def cube_by_pow_eagerly() -> Pair:
    return both_eagerly(lambda x: torch.pow(x, 3), exact_range(-LARGEST, LARGEST, 64))


@stimulus("E-08", published={AUG: Right(0.05)})
def cube_by_pow_is_the_fourth_power_of_the_magnitude() -> Pair:
    x = exact_range(-LARGEST, LARGEST, 64)
    return compiled(lambda x: torch.pow(x, 3), x), x.abs() ** 4


@stimulus("E-08", "6.8", published={APR: Right(0.05), AUG: Right(0.05), SEP: Right(0.05)})
def cube_by_multiplication() -> Pair:
    return both(lambda x: x * x * x, exact_range(-LARGEST, LARGEST, 64))


POWER_REFUSED = {APR: unimplemented("pow"), AUG: unimplemented("pow")}


@stimulus("E-10", published={**POWER_REFUSED, SEP: Right(0.01)})
def power_minus_half() -> Pair:
    return both(lambda x: torch.pow(x, -0.5), exact_range(0.5, 4, 64))


@stimulus("E-10", published={**POWER_REFUSED, SEP: Right(0.01)})
def power_minus_half_eagerly() -> Pair:
    return both_eagerly(lambda x: torch.pow(x, -0.5), exact_range(0.5, 4, 64))


@stimulus("E-10", published={APR: Right(0.01), AUG: Right(0.01)})
def rsqrt_instead_of_power_minus_half() -> Pair:
    return both(torch.rsqrt, exact_range(0.5, 4, 64))


@stimulus("E-11", published={**POWER_REFUSED, SEP: unimplemented("pow")})
def power_with_a_tensor_exponent() -> Pair:
    return both(torch.pow, exact_range(0.5, 4, 64), torch.full((64,), 2.0))


@stimulus("E-11", published={APR: Right(0.05), AUG: Right(0.05), SEP: Right(0.05)})
def power_two_is_a_multiplication() -> Pair:
    return both(lambda x: torch.pow(x, 2), exact_range(-4, 4, 64))


@stimulus("E-41", published={APR: Wrong({"share": 0.816}, band=1.15), AUG: Right(0), SEP: Right(0)})
def ne_of_unlike_values() -> Pair:
    a, b = normal(64, 128), normal(64, 128, seed=1)
    return both(lambda a, b: torch.where(torch.ne(a, b), a, a + 1), a, b)


@stimulus("E-46", published={APR: Right(0.01), AUG: Right(0.01)})
def silu_of_minus_infinity_is_zero() -> Pair:
    return eager(F.silu, torch.full((64,), -torch.inf)), torch.zeros(64)


@stimulus("E-46", published={APR: Right(0), AUG: Right(0)})
def infinity_times_a_small_value_is_finite() -> Pair:
    result = eager(lambda x: x * 2.0**-20, torch.full((64,), torch.inf))
    return result.cpu().isfinite().float(), torch.ones(64)


@stimulus("E-46", "1.6", published={APR: Right(0.01)})
def log_of_infinity_nan_and_negatives() -> Pair:
    x = torch.tensor([torch.inf, torch.nan, -1.0]).repeat(22)[:64]
    return eager(torch.log, x), torch.tensor([11.0938, 11.5, 16.1562]).repeat(22)[:64]


@stimulus("E-47", published={APR: Wrong({"share": (0.27, 1.0)}), AUG: Right(0.02), SEP: Right(0.02)})
def softplus_with_beta_two() -> Pair:
    return both(lambda x: F.softplus(x, beta=2.0), normal(64, 128))


@stimulus("E-47", published={APR: Right(0.02), AUG: Right(0.02)})
def softplus_with_beta_one() -> Pair:
    return both(F.softplus, normal(64, 128))


@stimulus("E-58", published={AUG: Right(0)})
def ceil_of_values_just_above_an_integer() -> Pair:
    return compiled(torch.ceil, torch.tensor([1.001, 2.002]).repeat(32)), torch.tensor([1.0, 2.0]).repeat(32)


@stimulus("E-58", "1.6", published={APR: Right(0), AUG: Right(0)})
def floor_of_minus_zero() -> Pair:
    return eager(torch.floor, torch.full((64,), -0.0)), torch.full((64,), -1.0)


@stimulus("E-58", "1.6", published={AUG: Right(0)})
def ceil_of_zero() -> Pair:
    return eager(torch.ceil, torch.zeros(64)), torch.ones(64)


@stimulus("E-58", published={APR: Right(0), AUG: Right(0)})
def floor_between_integers() -> Pair:
    return both_eagerly(torch.floor, exact_range(-4.7, 4.6, 64))


@stimulus("E-65", published={p: Raises("Unsupported", "Spyre backend does not support") for p in (APR, AUG, SEP)})
def matmul_in_fp32() -> Pair:
    return both(torch.matmul, normal(64, 64), normal(64, 64), dtype=torch.float32)


@stimulus("E-65", published={p: Raises("Unsupported", "Spyre backend does not support") for p in (APR, AUG, SEP)})
def linear_in_fp32_eagerly() -> Pair:
    return both_eagerly(F.linear, normal(64, 64), normal(64, 64), dtype=torch.float32)


@stimulus(
    "E-67",
    published={
        APR: Raises("NotImplementedError", r"Could not run 'aten::clamp_min"),
        AUG: Raises("NotImplementedError", r"Could not run 'aten::clamp_min"),
        SEP: Right(0.01),
    },
)
def l2_normalise_eagerly() -> Pair:
    return both_eagerly(lambda x: F.normalize(x, dim=-1), normal(4, 384))


@stimulus("E-67", "6.8", published={AUG: Right(0.01), SEP: Right(0.01)})
def l2_normalise_by_rsqrt() -> Pair:
    return both(lambda x: x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6), normal(4, 384))


@stimulus("E-69", published={NOV: Wrong()})
def eager_add_ignores_alpha() -> Pair:
    return both_eagerly(lambda x, y: torch.add(x, y, alpha=3), normal(64, 64), normal(64, 64, seed=1))
