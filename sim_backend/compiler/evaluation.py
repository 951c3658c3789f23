"""How each loop-level operation is computed on the CPU: Python source over the names of its operands."""

from __future__ import annotations

from collections.abc import Callable

from sim_backend.numerics.unary import FUNCTIONS

Source = Callable[..., str]


def _call(name: str) -> Source:
    return lambda *args: f"{name}({', '.join(args)})"


def _infix(sign: str) -> Source:
    return lambda a, b: f"({a} {sign} {b})"


_NAMED = [
    "abs", "exp", "log", "sqrt", "rsqrt", "sigmoid", "tanh", "reciprocal", "relu", "erf", "erfc", "floor",
    "ceil", "sign", "round", "trunc", "sin", "cos", "tan", "sinh", "cosh", "atan", "asin", "acos", "log1p",
    "expm1", "exp2", "log2", "isnan", "isinf", "maximum", "minimum", "fmod", "remainder", "atan2", "logical_not",
    "neg", "square", "pow",
]  # fmt: skip

# Every operation Inductor can hand us that has a plain meaning; which of them the device has is the profile's matter.
SOURCES: dict[str, Source] = {
    **{name: _call(f"torch.{name}") for name in _NAMED},
    "add": _infix("+"),
    "sub": _infix("-"),
    "mul": _infix("*"),
    "truediv": _infix("/"),
    "floordiv": lambda a, b: f"torch.div({a}, {b}, rounding_mode='floor')",
    "truncdiv": lambda a, b: f"torch.div({a}, {b}, rounding_mode='trunc')",
    "eq": _infix("=="),
    "ne": _infix("!="),
    "lt": _infix("<"),
    "gt": _infix(">"),
    "le": _infix("<="),
    "ge": _infix(">="),
    "and_": _infix("&"),
    "or_": _infix("|"),
    "xor": _infix("^"),
    "logical_and": _infix("&"),
    "logical_or": _infix("|"),
    "logical_xor": _infix("^"),
    "bitwise_and": _infix("&"),
    "bitwise_or": _infix("|"),
    "bitwise_xor": _infix("^"),
    "bitwise_not": lambda a: f"(~{a})",
    "identity": lambda a: a,
    "where": _call("torch.where"),
    # operations of the device that Inductor does not have
    "gelufwd": lambda a: f"torch.nn.functional.gelu({a})",
    "gelufwd_tanh": lambda a: f"torch.nn.functional.gelu({a}, approximate='tanh')",
    "silu": _call("torch.nn.functional.silu"),
    "mish": _call("torch.nn.functional.mish"),
    "softplus": lambda a, beta, limit: f"torch.nn.functional.softplus({a}, float({beta}), float({limit}))",
    "clip": lambda a, low, high: f"torch.minimum(torch.maximum({a}, {low}), {high})",
}
# On DL16 operands: one look-up or one pass, rounded already.
DL16_SOURCES: dict[str, Source] = {
    **{name: _call(f"rt.{name}") for name in ("add", "sub", "mul")},
    **{name: lambda a, _name=name: f"rt.unary({_name!r}, {a})" for name in FUNCTIONS},
    "softplus": lambda a, beta, limit: f"rt.unary('softplus', {a}, float({beta}), float({limit}))",
}
# Operations whose result is a bool, whatever the operands.
PREDICATES = frozenset([
    "eq", "ne", "lt", "gt", "le", "ge", "logical_and", "logical_or", "logical_xor", "logical_not", "isnan",
    "isinf", "signbit",
])  # fmt: skip
# Exact on DL16 values: the result is on the grid already.
EXACT = frozenset([
    "identity", "neg", "abs", "relu", "maximum", "minimum", "sign", "where", "floor", "ceil", "round", "trunc",
    "clip",
])  # fmt: skip
# Names of ours that stand for a device OpFunc.
DEVICE_NAMES = {"gelufwd_tanh": "gelufwd"}
CUSTOM_OPS = ("gelufwd", "gelufwd_tanh", "silu", "mish", "softplus", "clip")

REDUCTIONS: dict[str, str] = {
    "max": "{v}.amax({d}, keepdim=True)",
    "min": "{v}.amin({d}, keepdim=True)",
    "any": "{v}.to(torch.bool).any(dim={d}, keepdim=True)",
    "argmax": "{v}.flatten({first}).argmax(-1, keepdim=True).unflatten(-1, (1,) * {n})",
    "argmin": "{v}.flatten({first}).argmin(-1, keepdim=True).unflatten(-1, (1,) * {n})",
    "sum": "{v}.sum({d}, keepdim=True)",
    "prod": "{v}.flatten({first}).prod(-1, keepdim=True).unflatten(-1, (1,) * {n})",
}
EXACT_REDUCTIONS = frozenset(("max", "min", "any"))
