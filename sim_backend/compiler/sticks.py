"""Which accesses the stick layout allows (facts 2.2 to 2.4).

A buffer's stick dimension is the one with stride 1; a stick holds 128 bytes. The coordinate of an access along it must
be `Mod(var, eps)`, a bare variable of at most `eps` values, 0, or one of these plus whole sticks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from sim_backend.layouts import STICK_BYTES, elements_per_stick, is_held


def stick_of(dtype: torch.dtype) -> int:
    """Elements per stick; also for a dtype the device does not hold, whose operations are refused elsewhere."""
    return elements_per_stick(dtype) if is_held(dtype) else STICK_BYTES // dtype.itemsize


class Lane(NamedTuple):
    """The position inside a stick: `variable` runs along it, None for a broadcast. `problem` is illegal."""

    variable: sympy.Symbol | None
    problem: str | None = None


def row_stride(size: Sequence[int], stride: Sequence[int]) -> int | None:
    """Elements from one stick row to the next; None if the buffer has no dimension but the stick's."""
    outer = [st for sz, st in zip(size, stride, strict=True) if sz > 1 and st > 1]
    return min(outer) if outer else None


def lane_of(
    index: sympy.Expr,
    ranges: Mapping[sympy.Symbol, int],
    size: Sequence[int],
    stride: Sequence[int],
    eps: int,
    masked: bool = False,
) -> Lane:
    """The lane of a flat `index` into a buffer of `size` and `stride`; variables take the values 0 to `ranges`-1.

    Sizes are in elements. An indirect variable is one without a range. Under a mask (`masked`) a variable may run past
    the row: what lies beyond is not read.
    """
    index = sympy.expand(index, identity=True)
    if not size or size[-1] == 1:  # one element per row: a reduction's result, or a scalar
        return Lane(None)
    row = row_stride(size, stride)
    terms = _stick_terms(index, row)
    lanes = [t for t in terms if not _whole_sticks(t, eps)]
    if not lanes:
        return Lane(None)
    width = row if row is not None else math.prod(size)
    ranges = {v: min(n, width) for v, n in ranges.items()} if masked else ranges
    if len(lanes) == 1 and _is_lane(lanes[0], ranges, width, eps):
        return Lane(_variable(lanes[0]))
    wrapped = [ModularIndexing(t, 1, width) if ranges.get(t, 0) > width else t for t in terms]
    return Lane(None, _text(wrapped, index, ranges))


def lane_of_view(
    view_size: Sequence[int],
    view_stride: Sequence[int],
    offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    eps: int,
) -> Lane:
    """`lane_of` for a strided view (its size, stride and storage offset) of a buffer of `size` and `stride`."""
    order = sorted(range(len(view_size)), key=lambda d: (-view_stride[d], d))
    names = [sympy.Symbol(f"d{order.index(d)}", integer=True, nonnegative=True) for d in range(len(view_size))]
    index = sympy.Integer(offset) + sum(
        (st * v for st, v, n in zip(view_stride, names, view_size, strict=True) if n > 1), sympy.Integer(0)
    )
    return lane_of(index, dict(zip(names, view_size, strict=True)), size, stride, eps)


def _stick_terms(index: sympy.Expr, row: int | None) -> list[sympy.Expr]:
    """The summands that move along the stick dimension: those that are not whole rows."""
    terms = list(sympy.Add.make_args(index))
    if row is None:
        return [t for t in terms if t != 0]
    kept = []
    for term in terms:
        coefficient = term.as_coeff_Mul()[0]
        rest = term % row if term.is_number else term
        if rest != 0 and (term.is_number or not (coefficient.is_Integer and coefficient % row == 0)):
            kept.append(rest)
    return kept


def _whole_sticks(term: sympy.Expr, eps: int) -> bool:
    coefficient = term.as_coeff_Mul()[0]
    return bool(coefficient.is_Integer and coefficient % eps == 0)


def _is_lane(term: sympy.Expr, ranges: Mapping[sympy.Symbol, int], width: int, eps: int) -> bool:
    if term in ranges:
        return ranges[term] <= width or width % eps == 0
    if isinstance(term, ModularIndexing):
        variable, divisor, modulus = term.args
        fits = bool(modulus.is_Integer) and (modulus % eps == 0 or ranges.get(variable, math.inf) <= modulus)
        return variable in ranges and divisor == 1 and fits and (modulus <= width or width % eps == 0)
    return False


def _variable(term: sympy.Expr) -> sympy.Symbol:
    symbol: sympy.Symbol = next(iter(term.free_symbols))
    return symbol


def _text(terms: list[sympy.Expr], index: sympy.Expr, ranges: Mapping[sympy.Symbol, int]) -> str:
    """The stick expression, with variables named d0, d1, … in memory order as the device's compiler prints them."""
    expression = sympy.Add(*(_as_mod(t) for t in terms))
    names = {s: sympy.Symbol(s.name) for s in index.free_symbols}
    if not all(s.name.startswith("d") for s in names):
        ordered = sorted(ranges, key=lambda v: (-_coefficient(index, v), v.name))
        names = {v: sympy.Symbol(f"d{i}") for i, v in enumerate(ordered)}
    return str(expression.subs(names))


def _as_mod(term: sympy.Expr) -> sympy.Expr:
    if isinstance(term, ModularIndexing) and term.args[1] == 1:
        return sympy.Function("Mod")(term.args[0], term.args[2])
    if isinstance(term, FloorDiv):
        return sympy.Function("floor")(term.args[0] / term.args[1])
    return term


def _coefficient(index: sympy.Expr, variable: sympy.Symbol) -> int:
    coefficient = sympy.expand(index).coeff(variable)
    return int(coefficient) if coefficient.is_Integer else 0
