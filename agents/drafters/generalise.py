"""From an accepted drafted document to a proposed rewrite rule, with tests of its own. Proposed only: a person decides.

The stock document and the drafted one are compared as terms. The smallest pair of parts that differ is the rule; their
input becomes a hole. A number that stands on both sides becomes free where random numbers in its place leave both sides
equal; every other number stays as it is. The tests are made with the rule: random values in fp64, and near misses,
which are the pattern with a number or an operation changed, for which the replacement must be wrong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from agents.drafters.rules.documents import NotRewritable, capture_stock, to_term
from agents.drafters.rules.evaluate import evaluate
from agents.drafters.rules.rule import Domain, Rule
from agents.drafters.rules.terms import Call, Const, Hole, Input, Number, Term, substitute, subterms
from agents.drafters.rules.written import rule_data

POINTS, REACH = 2_001, 8.0
"""Values that a rule is tried at: evenly over [-REACH, REACH], zero among them."""

TOLERANCE = 1e-11
"""Largest difference in fp64, relative to the larger side or 1: rounding of a few operations."""

TRIALS = 5
DOMAIN = Domain(-REACH, REACH, 0.0, f"|x| <= {REACH:g}, where it was tried")


class NoRule(ValueError):
    """No rule comes out of the pair of documents; the message says why."""


@dataclass(frozen=True)
class Proposal:
    """A rule with what its tests found: the largest difference, and how many near misses were tried and refused."""

    rule: Rule
    largest_difference: float
    points: int
    near_misses: int

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data: for whoever reviews it, and under `data` the rule to be used again."""
        rule = self.rule
        return {
            "name": rule.name,
            "match": str(rule.match),
            "to": str(rule.to),
            "domain": rule.domain.text,
            "near_misses": [str(term) for term in rule.near_misses],
            "data": rule_data(rule),
            "tests": {
                "points": self.points,
                "largest_difference": self.largest_difference,
                "near_misses_refused": self.near_misses,
            },
        }


def generalised(
    module_class: str, document: Mapping[str, Any], stock: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """{"rule": the proposed rule or None, "reason": why there is none} of a drafted document.

    `stock` is the document of the stock module; without it the class is captured here, as the rules do.
    """
    try:
        found = propose_rule(stock or capture_stock(module_class), document)
    except (NoRule, NotRewritable) as reason:
        return {"rule": None, "reason": str(reason)}
    return {"rule": found.to_dict(), "reason": ""}


def propose_rule(stock: Mapping[str, Any], drafted: Mapping[str, Any]) -> Proposal:
    """The rule that leads from one validated document to the other. Raises NoRule."""
    left, right = smallest_difference(to_term(dict(stock)), to_term(dict(drafted)))
    if not isinstance(left, Call):
        raise NoRule("the documents are the same, or the drafted one computes more than stock")
    if isinstance(right, Const):
        raise NoRule(f"the drafted document has a constant in the place of {left}")
    left, right = as_pattern(left), as_pattern(right)
    if not (found := difference(left, right)) <= TOLERANCE:
        raise NoRule(f"both sides differ by {found:.2g} in fp64: this is no equality")
    for number in sorted({n for n in numbers_of(left) if n in numbers_of(right)}, key=repr):
        free = Number(f"n{number!r}")
        wider = exchange(left, Const(number), free), exchange(right, Const(number), free)
        if difference(*wider) <= TOLERANCE:
            left, right = wider
    left, right = renamed(left, right)
    return _with_tests(Rule(_name(left, right), left, right, DOMAIN), difference(left, right))


def _with_tests(rule: Rule, found: float) -> Proposal:
    misses = tuple(m for m in near_misses(rule.match) if not difference(m, rule.to) <= TOLERANCE)
    if not misses:
        raise NoRule("no near miss of the pattern is told from it: its tests would prove nothing")
    return Proposal(replace(rule, near_misses=misses), found, POINTS * TRIALS, len(misses))


def smallest_difference(left: Term, right: Term) -> tuple[Term, Term]:
    """The smallest pair of parts at the same place that holds every difference."""
    while isinstance(left, Call) and isinstance(right, Call) and _alike(left, right):
        apart = [(a, b) for a, b in zip(left.args, right.args, strict=True) if a != b]
        if len(apart) != 1 or not isinstance(apart[0][0], Call):
            break
        left, right = apart[0]
    return (left, right) if left != right else (Const(0), Const(0))


def _alike(left: Call, right: Call) -> bool:
    return (left.op, left.kwargs, len(left.args)) == (right.op, right.kwargs, len(right.args))


def as_pattern(term: Term) -> Term:
    """The term with its input as a hole."""
    return exchange(term, Input("x"), Hole("x"))


def exchange(term: Term, old: Term, new: Term) -> Term:
    """The term with every `old` in it replaced by `new`."""
    if term == old and type(term) is type(old):
        return new
    return replace(term, args=tuple(exchange(a, old, new) for a in term.args)) if isinstance(term, Call) else term


def numbers_of(term: Term) -> set[float | int]:
    """The numbers in a term that could be free."""
    return {p.value for p in subterms(term) if isinstance(p, Const) and p.is_number}  # type: ignore[misc]


def renamed(left: Term, right: Term) -> tuple[Term, Term]:
    """Free numbers by the letters a, b, ... in order of appearance."""
    names = list(dict.fromkeys(p for p in subterms(left) if isinstance(p, Number)))
    for letter, number in zip("abcdefgh", names, strict=False):
        left, right = exchange(left, number, Number(letter)), exchange(right, number, Number(letter))
    return left, right


def difference(left: Term, right: Term) -> float:
    """The largest difference over points and drawn numbers, relative; infinite where one side alone is finite.

    The numbers themselves, and those of both sides, are among the points: comparisons differ there.
    """
    even = torch.linspace(-REACH, REACH, POINTS, dtype=torch.float64)
    held = torch.tensor(sorted(numbers_of(left) | numbers_of(right)), dtype=torch.float64)
    free = sorted({p.name for side in (left, right) for p in subterms(side) if isinstance(p, Number)})
    generator = torch.Generator().manual_seed(len(free) + 1)
    worst = 0.0
    for _ in range(TRIALS):
        drawn = (torch.rand(len(free), generator=generator, dtype=torch.float64) * 4 - 2).tolist()
        x = torch.cat([even, held, torch.tensor(drawn, dtype=torch.float64)])
        bound: dict[str, Term] = {**{n: Const(v) for n, v in zip(free, drawn, strict=True)}, "x": Input("x")}
        one, two = (evaluate(substitute(side, bound), {"x": x}).double() for side in (left, right))
        same = torch.isnan(one) & torch.isnan(two) | (one == two)
        gap = torch.where(same, 0.0, (one - two).abs() / torch.maximum(one.abs(), two.abs()).clamp(min=1.0))
        worst = max(worst, float(torch.nan_to_num(gap, nan=torch.inf).max()))
    return worst


def near_misses(pattern: Term) -> Iterator[Term]:
    """The pattern with one number changed, or one operation in the place of another of its kind."""
    for number in sorted(numbers_of(pattern), key=repr):
        for other in (number + 1, -number):
            if other != number:
                yield exchange(pattern, Const(number), Const(other))
    for part in subterms(pattern):
        if isinstance(part, Call) and part.op in SISTERS:
            yield exchange(pattern, part, replace(part, op=SISTERS[part.op]))


SISTERS = {
    "aten.add.Tensor": "aten.sub.Tensor", "aten.sub.Tensor": "aten.add.Tensor",
    "aten.mul.Tensor": "aten.div.Tensor", "aten.div.Tensor": "aten.mul.Tensor",
}  # fmt: skip


def _name(left: Term, right: Term) -> str:
    word = left.op.split(".")[1] if isinstance(left, Call) else "rule"
    return f"drafted_{word}_{hashlib.sha256(f'{left} -> {right}'.encode()).hexdigest()[:8]}"
