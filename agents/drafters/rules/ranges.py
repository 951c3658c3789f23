"""Interval analysis of whole rows: between which bounds every value of a term lies, if its inputs lie in theirs.

Rows have no pointwise enclosure, so this is the plain box: each operation takes the bounds of its arguments. What no
line of the table knows has no bounds and counts as out of range. (Moore, Kearfott, Cloud 2009, chapter 5.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from agents.drafters.rules.rule import LARGEST
from agents.drafters.rules.terms import Call, Const, Input, Sort, Term, sort_of, subterms


class Box(NamedTuple):
    """Lowest and highest value."""

    low: float
    high: float


UNKNOWN = Box(-math.inf, math.inf)
TABLE = Box(-1.0, 1.0)
"""Sines, cosines, turns and one-hot tables."""


def stays_within(term: Term, bounds: Mapping[str, Box], width: int, limit: float = LARGEST) -> bool:
    """Whether no value that the device computes can leave [-limit, limit]; rows have `width` lanes."""
    found = boxes_of(term, bounds, width)
    computed = [t for t in found if sort_of(t) not in (Sort.CONSTANT, Sort.HOST)]
    return all(-limit <= found[t].low and found[t].high <= limit for t in computed)


def boxes_of(term: Term, bounds: Mapping[str, Box], width: int) -> dict[Term, Box]:
    """The box of every subterm; `bounds` are those of inputs by name, tables and masks need none."""
    found: dict[Term, Box] = {}
    for part in subterms(term):
        found[part] = _box(part, found, bounds, width)
    return found


def _box(part: Term, found: Mapping[Term, Box], bounds: Mapping[str, Box], width: int) -> Box:
    if isinstance(part, Const):
        return Box(float(part.value), float(part.value)) if part.is_number else UNKNOWN  # type: ignore[arg-type]
    if isinstance(part, Input):
        known = TABLE if part.name.startswith(("table", "mask")) else UNKNOWN
        return bounds.get(part.name, known)
    if not isinstance(part, Call):
        return UNKNOWN
    name = part.op.split(".")[1]
    if name == "mul" and part.args[0] == part.args[1]:
        return _square(found[part.args[0]])
    rule = BOXES.get(name)
    return UNKNOWN if rule is None else rule([found[a] for a in part.args], width)


def _square(a: Box) -> Box:
    ends = (a.low * a.low, a.high * a.high)
    return Box(0.0 if a.low <= 0 <= a.high else min(ends), max(ends))


def _products(a: Box, b: Box) -> Box:
    ends = [0.0 if 0.0 in (x, y) else x * y for x in a for y in b]
    return Box(min(ends), max(ends))


def _rising(function: Callable[[float], float]) -> Callable[[list[Box], int], Box]:
    return lambda a, width: Box(function(a[0].low), function(a[0].high))


def _reciprocal(a: Box) -> Box:
    return UNKNOWN if a.low <= 0 <= a.high else Box(1 / a.high, 1 / a.low)


def _root(x: float) -> float:
    return math.sqrt(max(x, 0.0))


def _exponential(x: float) -> float:
    return math.exp(x) if x < 709 else math.inf


def _of_root(a: Box) -> Box:
    return UNKNOWN if a.low <= 0 else Box(1 / math.sqrt(a.high), 1 / math.sqrt(a.low))


def _times(a: Box, count: int) -> Box:
    return Box(min(a.low, a.low * count), max(a.high, a.high * count))


def _logarithm(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def _joined(a: list[Box], width: int) -> Box:
    return Box(min(b.low for b in a), max(b.high for b in a))


BOXES: Mapping[str, Callable[[list[Box], int], Box]] = {
    "add": lambda a, _: Box(a[0].low + a[1].low, a[0].high + a[1].high),
    "sub": lambda a, _: Box(a[0].low - a[1].high, a[0].high - a[1].low),
    "neg": lambda a, _: Box(-a[0].high, -a[0].low),
    "mul": lambda a, _: _products(a[0], a[1]),
    "div": lambda a, _: _products(a[0], _reciprocal(a[1])),
    "reciprocal": lambda a, _: _reciprocal(a[0]),
    "sqrt": _rising(_root),
    "rsqrt": lambda a, _: _of_root(a[0]),
    "exp": _rising(_exponential),
    "log": _rising(_logarithm),
    "mean": lambda a, _: a[0],
    "amax": lambda a, _: a[0],
    "sum": lambda a, width: _times(a[0], width),
    "cumsum": lambda a, width: _times(a[0], width),
    "matmul": lambda a, width: _times(_products(a[0], a[1]), width),
    "softmax": lambda a, _: Box(0.0, 1.0),
    "sigmoid": lambda a, _: Box(0.0, 1.0),
    "tanh": lambda a, _: Box(-1.0, 1.0),
    "relu": _rising(lambda x: max(x, 0.0)),
    "sin": lambda a, _: TABLE,
    "cos": lambda a, _: TABLE,
    "where": lambda a, width: _joined(a[1:], width),
    "transpose": lambda a, _: a[0],
    "cat": _joined,
    "interleave": _joined,
    "chosen": lambda a, _: _joined([a[0], Box(0.0, 0.0)], 0),
    "lanes": lambda a, _: Box(0.0, 1.0),
    "one_hot": lambda a, _: Box(0.0, 1.0),
    **dict.fromkeys(("padded", "under"), lambda a, _: _joined([a[0], Box(0.0, 0.0)], 0)),
    **dict.fromkeys(("first", "second", "even", "odd", "repeated", "folded", "unfolded", "tiled"), lambda a, _: a[0]),
}
"""Operation → the box of its result, from those of its arguments and the width of a row."""
