"""The fp64 oracle for element-wise patches: is the drafted document the same mathematics as the stock module?

Both are run in fp64 on a grid, on hidden random points and on special values. A relative error alone would be unfair
where the stock module cancels (gelu near -8 keeps only quanta of 1 + tanh), so units in the last place are counted at
the larger of |x| and |y|: what a reordering of the same formula can change.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pipeline.verification.measurements import ElementwiseResult
from pipeline.verification.policy import current_policy

GRID_LIMIT, GRID_STEP = 40.0, 1 / 64
RANDOM_POINTS = 4096
_EXTREMES = (1e-300, 1e5, 65504.0, 1e30)
SPECIALS = (0.0, -0.0, float("inf"), float("-inf"), float("nan"), *_EXTREMES, *(-x for x in _EXTREMES))
_EPS, _TINY = torch.finfo(torch.float64).eps, torch.finfo(torch.float64).tiny


class _Errors(NamedTuple):
    """Per point: units in the last place at the larger of input and output, relative and scaled absolute error."""

    ulp: Tensor
    relative: Tensor
    scaled: Tensor


def compare_elementwise(
    name: str, stock: nn.Module, document: nn.Module, seed: int = 0, bound: float | None = None
) -> ElementwiseResult:
    """Compares an element-wise `document` with the `stock` module in fp64. `bound` is the claim's, None for `exact`.

    Points are the grid -40..40 by 1/64, normal points and log-uniform magnitudes from `seed` (hidden), and specials.
    Both modules are copied, made fp64 and run under no_grad; neither is changed.
    """
    stock, document = (copy.deepcopy(m).double().eval() for m in (stock, document))
    points, specials = _points(seed), torch.tensor(SPECIALS, dtype=torch.float64)
    with torch.no_grad():
        expected, found = stock(points), document(points)
        errors = _errors(points, expected, found)
        same = _specials_equal(specials, stock(specials), document(specials))
        independent = _is_elementwise(document, points, found)
    limits = current_policy().mathematics
    misses = ~((errors.ulp <= limits["exact_ulp"]) | (errors.relative <= limits["exact_relative"]))
    return ElementwiseResult(
        name=name,
        points=len(points) + len(specials),
        max_ulp=_largest(errors.ulp),
        max_relative=_largest(errors.relative),
        max_error=_largest(errors.scaled),
        exact_misses=int(misses.sum()),
        specials_equal=same,
        elementwise=independent,
        bound=bound,
        worst_input=float(points[errors.scaled.nan_to_num(nan=torch.inf).argmax()]),
    )


def _points(seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    count = int(2 * GRID_LIMIT / GRID_STEP) + 1
    grid = torch.linspace(-GRID_LIMIT, GRID_LIMIT, count, dtype=torch.float64)
    normal = torch.randn(RANDOM_POINTS, generator=generator, dtype=torch.float64) * 3
    exponent = torch.rand(RANDOM_POINTS, generator=generator, dtype=torch.float64) * 14 - 10
    sign = torch.randint(2, (RANDOM_POINTS,), generator=generator) * 2 - 1
    return torch.cat([grid, normal, sign * 10**exponent])


def _errors(x: Tensor, expected: Tensor, found: Tensor) -> _Errors:
    difference = (found - expected).abs()
    unit = torch.maximum(x.abs(), expected.abs()).clamp(min=_TINY) * _EPS
    relative = torch.where(difference == 0, 0.0, difference / expected.abs().clamp(min=_TINY))
    return _Errors(difference / unit, relative, difference / expected.abs().clamp(min=1.0))


def _largest(values: Tensor) -> float:
    return float("nan") if bool(values.isnan().any()) else float(values.max())


def _specials_equal(x: Tensor, expected: Tensor, found: Tensor) -> bool:
    """NaN with NaN, infinity with the same infinity, the rest within the gate's tolerance for extremes."""
    finite = expected.isfinite() & x.isfinite()
    same = torch.where(expected.isnan(), found.isnan(), found == expected)
    scale = torch.maximum(x.abs(), expected.abs()).clamp(min=1.0)
    near = (found - expected).abs() <= current_policy().mathematics["special_tolerance"] * scale
    return bool(torch.where(finite, near, same).all())


def _is_elementwise(document: nn.Module, points: Tensor, found: Tensor) -> bool:
    """The same values in another order and shape give the same bits."""
    if found.shape != points.shape:
        return False
    even = len(points) // 2 * 2
    other = document(points[:even].flip(0).reshape(2, -1)).reshape(-1).flip(0)
    return bool(torch.equal(other.nan_to_num(), found[:even].nan_to_num()))
