"""Terms: the small typed language rewrite rules are written in. A leaf module: it imports nothing of ours.

A term is an input, a constant or the call of an operation on terms; `Hole`s and `Number`s make it a pattern, `Fold`s
compute a constant of the replacement. A term is of one `Sort`: values, masks and constants never stand for each other.
Terms are hashable and compare by content, so a shared subterm is one value. The printed form is what a proof shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

Scalar = int | float | bool | str | tuple[int, ...] | None


class Sort(StrEnum):
    """What a term is."""

    VALUE = "T"
    MASK = "M"
    CONSTANT = "C"


@dataclass(frozen=True)
class Input:
    """A tensor the term starts from, by name. Names that begin with "mask" are masks."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Const:
    """A scalar argument or a tuple of dimensions. 3 and 3.0 are the same constant, as they are for ATen."""

    value: Scalar

    def __str__(self) -> str:
        return repr(self.value)

    @property
    def is_number(self) -> bool:
        """True for what rules may calculate with."""
        return isinstance(self.value, int | float) and not isinstance(self.value, bool)


@dataclass(frozen=True)
class Hole:
    """In a pattern: stands for any term of its sort; the same name stands for the same term."""

    name: str
    sort: Sort = Sort.VALUE

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Number:
    """In a pattern: stands for any number."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Fold:
    """In a replacement: the constant that `FOLDS[name]` makes of numbers."""

    name: str
    args: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.args)})"


@dataclass(frozen=True)
class Call:
    """An operation (such as "aten.mul.Tensor") on terms; keyword arguments are kept in order of name."""

    op: str
    args: tuple[Term, ...]
    kwargs: tuple[tuple[str, Scalar], ...] = ()

    def __str__(self) -> str:
        inside = [str(a) for a in self.args] + [f"{k}={v!r}" for k, v in self.kwargs]
        return f"{self.op.split('.')[1]}({', '.join(inside)})"


Term = Input | Const | Hole | Number | Fold | Call
Bindings = Mapping[str, Term]

COMPARISONS = frozenset(f"aten.{name}.{form}" for name in ("ge", "gt", "le", "lt") for form in ("Scalar", "Tensor"))
"""Operations whose result is a mask."""

FOLDS: dict[str, Callable[..., float]] = {
    "product": lambda a, b: a * b,
    "sum": lambda a, b: a + b,
    "negative": lambda a: -a,
    "reciprocal": lambda a: 1.0 / a,
    "log": math.log,
}
"""How constants of a replacement are calculated, in fp64."""


def sort_of(term: Term) -> Sort:
    """The sort of a term or pattern."""
    if isinstance(term, Const | Number | Fold):
        return Sort.CONSTANT
    if isinstance(term, Hole):
        return term.sort
    named_mask = isinstance(term, Input) and term.name.startswith("mask")
    return Sort.MASK if named_mask or (isinstance(term, Call) and term.op in COMPARISONS) else Sort.VALUE


def match(pattern: Term, term: Term, bound: Bindings | None = None) -> Bindings | None:
    """What the holes of `pattern` must stand for so that it equals `term`; None if it cannot."""
    bound = bound or {}
    if isinstance(pattern, Hole | Number):
        fits = sort_of(term) is sort_of(pattern) and (isinstance(pattern, Hole) or _is_number(term))
        return {**bound, pattern.name: term} if fits and bound.get(pattern.name, term) == term else None
    if not isinstance(pattern, Call):
        return bound if pattern == term else None
    return _match_call(pattern, term, bound)


def _is_number(term: Term) -> bool:
    return isinstance(term, Const) and term.is_number


def _match_call(pattern: Call, term: Term, bound: Bindings) -> Bindings | None:
    if not isinstance(term, Call) or (pattern.op, pattern.kwargs) != (term.op, term.kwargs):
        return None
    if len(pattern.args) != len(term.args):
        return None
    found: Bindings | None = bound
    for part, given in zip(pattern.args, term.args, strict=True):
        found = match(part, given, found)
        if found is None:
            return None
    return found


def substitute(pattern: Term, bound: Bindings) -> Term:
    """`pattern` with its holes filled and its folds calculated. Raises KeyError for a hole that is not bound."""
    if isinstance(pattern, Hole | Number):
        return bound[pattern.name]
    if isinstance(pattern, Fold):
        return Const(FOLDS[pattern.name](*(_number(bound[name]) for name in pattern.args)))
    if isinstance(pattern, Call):
        return Call(pattern.op, tuple(substitute(a, bound) for a in pattern.args), pattern.kwargs)
    return pattern


def _number(term: Term) -> float:
    if not isinstance(term, Const) or not isinstance(term.value, int | float):
        raise TypeError(f"{term} is no number")
    return float(term.value)


def subterms(term: Term) -> Iterator[Term]:
    """`term` and everything below it, each distinct term once, parts before the whole."""
    seen: set[Term] = set()
    yield from _walk(term, seen)


def _walk(term: Term, seen: set[Term]) -> Iterator[Term]:
    if term in seen:
        return
    seen.add(term)
    if isinstance(term, Call):
        for part in term.args:
            yield from _walk(part, seen)
    yield term
