"""Interval evaluation of operator documents: an enclosure of the true value at each point, rounding included.

The enclosure of the *stock* document is the fair tolerance for its replacement: whatever lies in it is as near to the
mathematics as the stock code itself can promise. Where the stock formula cancels it is wide, elsewhere a few units in
the last place. (Moore, Kearfott, Cloud, Introduction to Interval Analysis, 2009, chapters 2 and 5.) An operator without
a row here gives no enclosure (NaN), and the plain limits decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from adapters.document_ops import OPERATORS

_ULP, _TINY = torch.finfo(torch.float64).eps, 5e-324


class Interval(NamedTuple):
    """Bounds that hold the true value, elementwise; NaN where nothing is known."""

    low: Tensor
    high: Tensor


Rule = Callable[..., Interval]


def enclose(document: dict[str, Any], x: Tensor, limit: float = math.inf) -> Interval:
    """The enclosure of the document's value at each point of `x`, fp64, of its shape.

    What may lie beyond `limit` on the way is no number from there on, as in a format that ends there.
    """
    values: list[Any] = [Interval(x, x)]
    for node in document["nodes"]:
        args = [values[a["ref"]] if isinstance(a, dict) else a for a in node["args"]]
        kwargs = {k: values[v["ref"]] if isinstance(v, dict) else v for k, v in node.get("kwargs", {}).items()}
        values.append(_within(_apply(node["op"], args, kwargs, x), limit))
    found: Interval = values[document["output"]["ref"]]
    return found


def _within(found: Interval, limit: float) -> Interval:
    if limit == math.inf:
        return found
    beyond = torch.maximum(found.low.abs(), found.high.abs()) > limit
    return Interval(found.low.masked_fill(beyond, torch.nan), found.high.masked_fill(beyond, torch.nan))


def _apply(op: str, args: list[Any], kwargs: dict[str, Any], x: Tensor) -> Interval:
    rule = RULES.get(op)
    if rule is None:
        return Interval(torch.full_like(x, torch.nan), torch.full_like(x, torch.nan))
    return rule(*[_bounds(a, x) if i < TENSOR_ARGUMENTS.get(op, 1) else a for i, a in enumerate(args)], **kwargs)


def _bounds(value: Any, x: Tensor) -> Interval:
    if isinstance(value, Interval):
        return value
    constant = torch.full_like(x, float(value))
    return Interval(constant, constant)


def _widened(low: Tensor, high: Tensor, ulp: float = 1) -> Interval:
    """Bounds moved outwards by the rounding of one operation."""
    return Interval(low - (low.abs() * (ulp * _ULP) + _TINY), high + (high.abs() * (ulp * _ULP) + _TINY))


def _increasing(op: str, ulp: float = 4) -> Rule:
    function = OPERATORS[op]

    def rule(a: Interval, *rest: Any, **kwargs: Any) -> Interval:
        return _widened(function(a.low, *rest, **kwargs), function(a.high, *rest, **kwargs), ulp)

    return rule


def _lipschitz(op: str, constant: float, lost_ulp: float = 0) -> Rule:
    """For smooth functions with turning points: the value at one end, give or take the steepest slope.

    `lost_ulp` of the argument are lost where the operator itself cancels: gelu is 0.5*x*(1 + erf) in torch.
    """
    function = OPERATORS[op]

    def rule(a: Interval, *rest: Any, **kwargs: Any) -> Interval:
        value, reach = function(a.low, *rest, **kwargs), (a.high - a.low) * constant + a.low.abs() * lost_ulp * _ULP
        return _widened(value - reach, value + reach, 8)

    return rule


def _hull(*corners: Tensor) -> Interval:
    stacked = torch.stack(corners)
    return _widened(stacked.amin(0), stacked.amax(0))


def _add(a: Interval, b: Interval, alpha: float = 1) -> Interval:
    scaled = _mul(b, Interval(torch.full_like(b.low, alpha), torch.full_like(b.low, alpha))) if alpha != 1 else b
    return _widened(a.low + scaled.low, a.high + scaled.high)


def _neg(a: Interval) -> Interval:
    return Interval(-a.high, -a.low)


def _sub(a: Interval, b: Interval, alpha: float = 1) -> Interval:
    return _add(a, _neg(b), alpha)


def _rsub(a: Interval, b: Interval, alpha: float = 1) -> Interval:
    return _sub(b, a, alpha)


def _mul(a: Interval, b: Interval) -> Interval:
    return _hull(a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high)


def _reciprocal(a: Interval) -> Interval:
    crosses = (a.low <= 0) & (a.high >= 0)
    found = _widened(1 / a.high, 1 / a.low)
    return Interval(found.low.masked_fill(crosses, torch.nan), found.high.masked_fill(crosses, torch.nan))


def _div(a: Interval, b: Interval) -> Interval:
    crosses = (b.low <= 0) & (b.high >= 0)
    found = _hull(a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high)
    return Interval(found.low.masked_fill(crosses, torch.nan), found.high.masked_fill(crosses, torch.nan))


def _abs(a: Interval) -> Interval:
    crosses = (a.low <= 0) & (a.high >= 0)
    smaller = torch.minimum(a.low.abs(), a.high.abs()).masked_fill(crosses, 0.0)
    return Interval(smaller, torch.maximum(a.low.abs(), a.high.abs()))


def _pow(a: Interval, exponent: float) -> Interval:
    """Whole exponents for any base, others for a base that is not negative (else NaN, as the operator gives)."""
    base = _abs(a) if exponent % 2 == 0 else a
    if exponent < 0:
        return _reciprocal(_pow(a, -exponent))
    return _widened(torch.pow(base.low, exponent), torch.pow(base.high, exponent), 4)


def _exponential(base: float, a: Interval) -> Interval:
    return _hull(torch.pow(base, a.low), torch.pow(base, a.high))


def _rsqrt(a: Interval) -> Interval:
    return _reciprocal(_widened(a.low.sqrt(), a.high.sqrt()))


def _clamp(a: Interval, low: float | None = None, high: float | None = None) -> Interval:
    if low is None and high is None:
        return a
    return Interval(a.low.clamp(low, high), a.high.clamp(low, high))


def _clamp_min(a: Interval, low: float) -> Interval:
    return _clamp(a, low)


def _clamp_max(a: Interval, high: float) -> Interval:
    return _clamp(a, None, high)


def _maximum(a: Interval, b: Interval) -> Interval:
    return Interval(torch.maximum(a.low, b.low), torch.maximum(a.high, b.high))


def _minimum(a: Interval, b: Interval) -> Interval:
    return Interval(torch.minimum(a.low, b.low), torch.minimum(a.high, b.high))


def _greater(a: Interval, b: Interval) -> Interval:
    """A mask as an interval: [1, 1] surely, [0, 0] surely not, [0, 1] undecided."""
    return Interval((a.low > b.high).to(a.low), (a.high > b.low).to(a.low))


def _less(a: Interval, b: Interval) -> Interval:
    return _greater(b, a)


def _where(mask: Interval, a: Interval, b: Interval) -> Interval:
    either = Interval(torch.minimum(a.low, b.low), torch.maximum(a.high, b.high))
    surely, never = mask.low > 0, mask.high <= 0
    low = torch.where(surely, a.low, torch.where(never, b.low, either.low))
    high = torch.where(surely, a.high, torch.where(never, b.high, either.high))
    return Interval(low, high)


def _same(rule: Rule, *ops: str) -> dict[str, Rule]:
    return {f"aten.{op}": rule for op in ops}


RULES: dict[str, Rule] = {
    **_same(_add, "add.Tensor", "add.Scalar"),
    **_same(_sub, "sub.Tensor", "sub.Scalar"),
    **_same(_rsub, "rsub.Tensor", "rsub.Scalar"),
    **_same(_mul, "mul.Tensor", "mul.Scalar"),
    **_same(_div, "div.Tensor", "div.Scalar"),
    **_same(_greater, "gt.Tensor", "gt.Scalar", "ge.Tensor", "ge.Scalar"),
    **_same(_less, "lt.Tensor", "lt.Scalar", "le.Tensor", "le.Scalar"),
    **_same(_where, "where.self", "where.Scalar", "where.ScalarOther", "where.ScalarSelf"),
    **_same(_maximum, "maximum.default"),
    **_same(_minimum, "minimum.default"),
    **_same(_neg, "neg.default"),
    **_same(_abs, "abs.default"),
    **_same(_reciprocal, "reciprocal.default"),
    **_same(_rsqrt, "rsqrt.default"),
    **_same(lambda a: _pow(a, 2), "square.default"),
    **_same(_pow, "pow.Tensor_Scalar"),
    **_same(_exponential, "pow.Scalar"),
    **_same(_clamp, "clamp.default"),
    **_same(_clamp_min, "clamp_min.default"),
    **_same(_clamp_max, "clamp_max.default"),
    **{
        f"aten.{op}.default": _increasing(f"aten.{op}.default")
        for op in ("exp", "log", "log1p", "sqrt", "tanh", "erf", "sigmoid", "relu", "softplus", "sign", "hardtanh")
    },
    # the steepest slopes: gelu 1.129 at sqrt(2), its tanh form alike, silu 1.0998 at 2.4, mish 1.0885 at 1.5
    "aten.gelu.default": _lipschitz("aten.gelu.default", 1.13, 2),
    "aten.silu.default": _lipschitz("aten.silu.default", 1.1),
    "aten.mish.default": _lipschitz("aten.mish.default", 1.09),
}
"""Operator → its interval rule. elu, leaky_relu and a tensor's power of a tensor have none."""

TENSOR_ARGUMENTS = {
    **{op: 2 for op in RULES if OPERATORS[op]._schema.name.split("::")[1] in {"add", "sub", "rsub", "mul", "div"}},
    **{op: 2 for op in RULES if op.split(".")[1] in {"gt", "ge", "lt", "le", "maximum", "minimum"}},
    **{op: 3 for op in RULES if op.startswith("aten.where.")},
    "aten.pow.Scalar": 0,
}
"""How many leading arguments are bounds, scalars made constant; the rest stay as they are. Where not named: one."""
