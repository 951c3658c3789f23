"""Terms: the small language rewrite rules are written in. A leaf module: it imports nothing of ours.

A term is an input, a constant or the call of an ATen overload on terms; `Hole`s make it a pattern. Terms are hashable
and compare by content, so a shared subterm is one value. The printed form is what a stored proof shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Scalar = int | float | bool | str | None


@dataclass(frozen=True)
class Input:
    """A tensor the term starts from, by name."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Const:
    """A scalar argument. 3 and 3.0 are the same constant, as they are for ATen."""

    value: Scalar

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True)
class Hole:
    """In a pattern: stands for any tensor term; the same name stands for the same term."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Call:
    """An ATen overload (such as "aten.mul.Tensor") on terms; keyword arguments are kept in order of name."""

    op: str
    args: tuple[Term, ...]
    kwargs: tuple[tuple[str, Scalar], ...] = ()

    def __str__(self) -> str:
        inside = [str(a) for a in self.args] + [f"{k}={v!r}" for k, v in self.kwargs]
        return f"{self.op.split('.')[1]}({', '.join(inside)})"


Term = Input | Const | Hole | Call
Bindings = Mapping[str, Term]


def match(pattern: Term, term: Term, bound: Bindings | None = None) -> Bindings | None:
    """What the holes of `pattern` must stand for so that it equals `term`; None if it cannot."""
    bound = bound or {}
    if isinstance(pattern, Hole):
        if isinstance(term, Const) or bound.get(pattern.name, term) != term:
            return None
        return {**bound, pattern.name: term}
    if not isinstance(pattern, Call):
        return bound if pattern == term else None
    return _match_call(pattern, term, bound)


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
    """`pattern` with its holes filled. Raises KeyError for a hole that is not bound."""
    if isinstance(pattern, Hole):
        return bound[pattern.name]
    if isinstance(pattern, Call):
        return Call(pattern.op, tuple(substitute(a, bound) for a in pattern.args), pattern.kwargs)
    return pattern


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
