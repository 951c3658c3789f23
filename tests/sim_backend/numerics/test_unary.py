"""Functions of one DL16 operand give the nearest DL16 value for every code."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from sim_backend import numerics
from sim_backend.numerics import Rounding
from sim_backend.numerics.unary import FUNCTIONS, table, unary

pytestmark = pytest.mark.fact("1.6", "8")

CODES = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
LARGEST = (1 + 510 / 512) * 2.0**32


def quiet(function: Callable[[float], float]) -> Callable[[float], float]:
    def run(x: float) -> float:
        try:
            return function(x)
        except OverflowError:
            return math.inf
        except (ValueError, ZeroDivisionError):
            return math.nan

    return run


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


# Python's own float64 functions, written in another form than the tables' where that is as exact.
EXACT: dict[str, Callable[[float], float]] = {
    "exp": math.exp,
    "log": math.log,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sigmoid": sigmoid,
    "tanh": math.tanh,
    "gelufwd": lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2)),
    "gelufwd_tanh": lambda x: x * sigmoid(1.5957691216057308 * x * (1 + 0.044715 * x * x)),
    "silu": lambda x: x * sigmoid(x),
    "mish": lambda x: x * math.tanh(math.log1p(math.exp(x)) if x < 30 else x),
    "softplus": lambda x: math.log1p(math.exp(x)) if x <= 20 else x,
}


def test_every_function_has_an_exact_form() -> None:
    assert EXACT.keys() == FUNCTIONS.keys()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_code_gives_the_nearest_value(name: str) -> None:
    x = numerics.decode(CODES)
    result = unary(name, x).double()
    assert torch.equal(numerics.round_dl16(result.float()).nan_to_num(nan=7.0), result.float().nan_to_num(nan=7.0))
    function = quiet(EXACT[name])
    exact = torch.tensor([function(v) for v in x.tolist()], dtype=torch.float64)
    outside = exact.isnan() | (exact.abs() > LARGEST * (1 + 2.0**-11))
    assert result[outside].isnan().all()
    inside = ~outside & ~result.isnan() & (exact.abs() > 2.0**-30)
    step = torch.exp2(torch.floor(torch.log2(result[inside].abs())) - 9)
    off = (result[inside] - exact[inside]).abs() / step
    assert off.max() <= 0.5 + 1e-6
    assert inside.sum() > 10_000


def test_a_gelu_far_below_zero_is_not_lost_to_cancellation() -> None:
    x = torch.tensor([-5.0])
    assert unary("gelufwd", x).item() == pytest.approx(-1.4333e-6, rel=1e-3)


@pytest.fixture
def results_rounded() -> Iterator[Callable[[Rounding], None]]:
    yield numerics.set_op_rounding
    numerics.set_op_rounding(Rounding.NEAREST_UP)


def test_tables_follow_the_rounding_of_results(results_rounded: Any) -> None:
    down, nearest = [], []
    for rounding, results in ((Rounding.TRUNCATE, down), (Rounding.NEAREST_UP, nearest)):
        results_rounded(rounding)
        results.append(table("exp", rounding).clone())
    finite = down[0].isfinite() & nearest[0].isfinite()
    assert (down[0][finite] <= nearest[0][finite]).all()
    assert (down[0][finite] < nearest[0][finite]).any()


@pytest.mark.parametrize(
    "view", [lambda x: x, lambda x: x.t(), lambda x: x[:, ::2], lambda x: x[:, None].expand(6, 3, 8)]
)
def test_views_give_the_values_of_their_copies(view: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = numerics.round_dl16(torch.randn(6, 8))
    assert torch.equal(unary("tanh", view(x)), unary("tanh", view(x).contiguous()))
