"""Rules and terms as plain JSON data, so that a rule can be stored, reviewed and used again.

A term is a list whose first word says what it is. Raises ValueError for data that is no term.
"""

from __future__ import annotations

from typing import Any

from agents.drafters.rules.rule import Domain, Rule
from agents.drafters.rules.terms import Call, Const, Hole, Input, Number, Sort, Term

MAX_DEPTH = 60
LENGTHS = {"call": 3, "const": 1, "hole": 3, "input": 1, "number": 1}
"""Kind of term → how many words follow."""


def term_data(term: Term) -> list[Any]:
    """A term or pattern as data. Folds are no part of a stored rule. Raises ValueError for one."""
    if isinstance(term, Call):
        return ["call", term.op, [term_data(a) for a in term.args], [list(pair) for pair in term.kwargs]]
    if isinstance(term, Const):
        value = list(term.value) if isinstance(term.value, tuple) else term.value
        return ["const", value]
    if isinstance(term, Hole):
        return ["hole", term.name, term.sort.value, term.exact]
    if isinstance(term, Input | Number):
        return ["input" if isinstance(term, Input) else "number", term.name]
    raise ValueError(f"{term} cannot be stored")


def term_from(data: Any, depth: int = 0) -> Term:
    """The term written by `term_data`."""
    if not isinstance(data, list) or not data or depth > MAX_DEPTH:
        raise ValueError(f"{str(data)[:80]} is no term")
    kind, *rest = data
    if not isinstance(kind, str) or len(rest) != LENGTHS.get(kind):
        raise ValueError(f"{str(data)[:80]} is no term")
    if kind == "call":
        op, args, kwargs = rest
        return Call(op, tuple(term_from(a, depth + 1) for a in args), tuple((k, v) for k, v in kwargs))
    if kind == "const":
        (value,) = rest
        return Const(tuple(value) if isinstance(value, list) else value)
    if kind == "hole":
        name, sort, exact = rest
        return Hole(name, Sort(sort), bool(exact))
    (name,) = rest
    return Input(name) if kind == "input" else Number(name)


def rule_data(rule: Rule) -> dict[str, Any]:
    """A proposed rule as data: sides, domain, near misses, what its tests allow."""
    return {
        "name": rule.name,
        "match": term_data(rule.match),
        "to": term_data(rule.to),
        "domain": [rule.domain.low, rule.domain.high, rule.domain.smallest, rule.domain.text],
        "near_misses": [term_data(term) for term in rule.near_misses],
    }


def rule_from(data: dict[str, Any]) -> Rule:
    """The rule written by `rule_data`."""
    low, high, smallest, text = data["domain"]
    misses = tuple(term_from(term) for term in data["near_misses"])
    domain = Domain(float(low), float(high), float(smallest), str(text))
    return Rule(str(data["name"]), term_from(data["match"]), term_from(data["to"]), domain, near_misses=misses)
