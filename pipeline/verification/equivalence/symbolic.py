"""Symbolic comparison of two documents: equal as rational functions of x and of exponentials of polynomials.

tanh, sigmoid, silu and the tanh form of gelu are rational in an exponential, so the identities of pattern P02 and P05
come out. Literals are taken as the exact binary numbers they are: a constant folded with rounding is not the same
expression, and the numeric comparison decides. What has no row here is not compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sympy

MAX_NODES = 40
MAX_POWER = 8
"""Larger documents and powers are left to the numeric comparison: their normal form may take longer than a verdict."""


class NotRational(ValueError):
    """The document has an operator or an argument without a rational form."""


def same_expression(stock: dict[str, Any], document: dict[str, Any]) -> bool:
    """True if both are proved equal for every real x where both are defined; False proves nothing."""
    if len(stock["nodes"]) > MAX_NODES or len(document["nodes"]) > MAX_NODES:
        return False
    import sympy

    x = sympy.Symbol("x", real=True)
    exponentials = _Exponentials(x)
    try:
        difference = _expression(stock, x, exponentials) - _expression(document, x, exponentials)
    except NotRational:
        return False
    return bool(sympy.cancel(sympy.together(difference)) == 0)


class _Exponentials:
    """One symbol for each exponential: e^p of a polynomial p is a power of the symbol of p's primitive part.

    Both documents share the table, so that e^(2z) and the square of e^z are the same power of one symbol.
    """

    def __init__(self, x: sympy.Symbol) -> None:
        self._x = x
        self._symbols: dict[Any, tuple[Any, Any]] = {}

    def __call__(self, argument: Any) -> Any:
        """e^argument. Raises NotRational if the argument is no polynomial in x or the powers do not fit."""
        import sympy

        if argument.free_symbols - {self._x} or not argument.is_polynomial(self._x):
            raise NotRational("an exponential of something that is no polynomial")
        polynomial = sympy.Poly(argument, self._x)
        if polynomial.is_zero:
            return sympy.Integer(1)
        leading = polynomial.LC()
        key = polynomial.monic()
        symbol, unit = self._symbols.setdefault(key, (sympy.Symbol(f"e{len(self._symbols)}", positive=True), leading))
        power = leading / unit
        if 2 * abs(power) > 2 * MAX_POWER or (2 * power).q != 1:
            raise NotRational("exponentials of unrelated size")
        return symbol ** (2 * power)


def _expression(document: dict[str, Any], x: Any, exponentials: _Exponentials) -> Any:
    import sympy

    values = [x]
    for node in document["nodes"]:
        row = ROWS.get(node["op"])
        kwargs = node.get("kwargs", {})
        if row is None or set(kwargs) - {"approximate"} or kwargs.get("approximate", "tanh") != "tanh":
            raise NotRational(node["op"])
        args = [values[a["ref"]] if isinstance(a, dict) else sympy.Rational(a) for a in node["args"]]
        values.append(row(exponentials, *args))
    return values[document["output"]["ref"]]


def _tanh(exp: _Exponentials, z: Any) -> Any:
    return 2 * _sigmoid(exp, 2 * z) - 1


def _sigmoid(exp: _Exponentials, z: Any) -> Any:
    return 1 / (1 + exp(-z))


def _power(exp: _Exponentials, a: Any, exponent: Any) -> Any:
    if exponent.q != 1 or abs(exponent) > MAX_POWER:
        raise NotRational("a power that is not a small whole number")
    return a**exponent


ROWS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("aten.add.Tensor", "aten.add.Scalar"), lambda _, a, b: a + b),
    **dict.fromkeys(("aten.sub.Tensor", "aten.sub.Scalar"), lambda _, a, b: a - b),
    **dict.fromkeys(("aten.rsub.Tensor", "aten.rsub.Scalar"), lambda _, a, b: b - a),
    **dict.fromkeys(("aten.mul.Tensor", "aten.mul.Scalar"), lambda _, a, b: a * b),
    **dict.fromkeys(("aten.div.Tensor", "aten.div.Scalar"), lambda _, a, b: a / b),
    "aten.neg.default": lambda _, a: -a,
    "aten.square.default": lambda _, a: a**2,
    "aten.reciprocal.default": lambda _, a: 1 / a,
    "aten.pow.Tensor_Scalar": _power,
    "aten.exp.default": lambda exp, a: exp(a),
    "aten.sigmoid.default": _sigmoid,
    "aten.tanh.default": _tanh,
    "aten.silu.default": lambda exp, a: a * _sigmoid(exp, a),
}
"""Operator → its value as a rational function; the first argument makes exponentials."""
