"""Terms: the small typed language rewrite rules are written in.

A term is an input, a constant or the call of an operation on terms; `Hole`s and `Number`s make it a pattern, `Fold`s
compute a constant of the replacement. A term is of one `Sort`: whole rows, one number per row, or what no
activation has a part in; masks, indices and constants never stand for numbers. Terms are hashable and compare by
content, so a shared subterm is one value. The printed form is what a proof shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from agents.drafters.rules.operations import BY_NUMBER, HOST_NAMES, REDUCTIONS, WIDE

Scalar = int | float | bool | str | tuple[int, ...] | None


class Sort(StrEnum):
    """What a term is."""

    VALUE = "T"
    """Numbers along whole rows."""
    ROW = "R"
    """One number per row."""
    HOST = "H"
    """Numbers that depend on weights and positions alone: made once, on the host."""
    MASK = "M"
    INDEX = "I"
    CONSTANT = "C"


NUMBERS = (Sort.VALUE, Sort.ROW, Sort.HOST)
"""What element-wise rules hold for, by broadcasting."""


@dataclass(frozen=True)
class Input:
    """A tensor the term starts from, by name: its first word says what sort it is ("mask", "row", "weight", ...)."""

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
    """In a pattern: stands for any term of its sort; the same name stands for the same term.

    One of sort VALUE stands for any numbers, unless it is `exact`.
    """

    name: str
    sort: Sort = Sort.VALUE
    exact: bool = False

    @property
    def sorts(self) -> tuple[Sort, ...]:
        """The sorts of what it may stand for."""
        return NUMBERS if self.sort is Sort.VALUE and not self.exact else (self.sort,)

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

SCALES = (16, 64, 256)
"""Powers of two by which rows are held back before they are squared."""

FOLDS: dict[str, Callable[..., float]] = {
    "product": lambda a, b: a * b,
    "sum": lambda a, b: a + b,
    "negative": lambda a: -a,
    "reciprocal": lambda a: 1.0 / a,
    "log": math.log,
    "double": lambda a: 2.0 * a,
    **{f"over_{k * k}": lambda a, k=k: a / (k * k) for k in SCALES},
}
"""How constants of a replacement are calculated, in fp64."""


def sort_of(term: Term) -> Sort:
    """The sort of a term or pattern."""
    if isinstance(term, Const | Number | Fold):
        return Sort.CONSTANT
    if isinstance(term, Hole):
        return term.sort
    if isinstance(term, Input):
        return next((sort for name, sort in INPUT_SORTS.items() if term.name.startswith(name)), Sort.VALUE)
    return result_sort(term.op, tuple(sort_of(a) for a in term.args))


INPUT_SORTS = {
    "mask": Sort.MASK, "row": Sort.ROW, "index": Sort.INDEX, **dict.fromkeys(HOST_NAMES, Sort.HOST),
}  # fmt: skip


def result_sort(op: str, sorts: tuple[Sort, ...]) -> Sort:
    """The sort of an operation's result, by those of its arguments."""
    held = set(sorts) - {Sort.CONSTANT}
    if op in COMPARISONS:
        return Sort.MASK
    if op in BY_NUMBER or (held and held <= {Sort.HOST, Sort.INDEX}):
        return Sort.HOST
    if op in REDUCTIONS:
        return Sort.ROW
    return Sort.ROW if held == {Sort.ROW} and op not in WIDE else Sort.VALUE


def match(pattern: Term, term: Term, bound: Bindings | None = None) -> Bindings | None:
    """What the holes of `pattern` must stand for so that it equals `term`; None if it cannot."""
    bound = bound or {}
    if isinstance(pattern, Hole | Number):
        fits = sort_of(term) in pattern.sorts if isinstance(pattern, Hole) else _is_number(term)
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
