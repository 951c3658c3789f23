"""The cheapest terms of a class: by the cost of the distinct operations of a term, among those that may be used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice, product

from agents.drafters.rules.saturate import EGraph, ENode
from agents.drafters.rules.terms import Call, Term

KEPT, ROUNDS, COMBINATIONS = 3, 24, 27
"""How many terms of a class are kept, passes over all classes, and combinations of one operation's arguments."""

Usable = Callable[[Call], bool]
Cost = Callable[[Call], float]


@dataclass(frozen=True)
class Priced:
    """A term with the cost of each of its distinct calls: shared parts are paid once."""

    cost: float
    text: str
    term: Term
    parts: dict[str, float]


def cheapest(graph: EGraph, usable: Usable, cost: Cost) -> list[Term]:
    """The cheapest usable terms of the root's class, cheapest first; none if no form is usable. Deterministic."""
    best: dict[str, list[Priced]] = {}
    for _ in range(ROUNDS):
        changed = False
        for name, nodes in graph.classes.items():
            found = _keep(best.get(name, []) + [made for node in nodes for made in _made(node, best, usable, cost)])
            if [p.text for p in found] != [p.text for p in best.get(name, [])]:
                best[name], changed = found, True
        if not changed:
            break
    return [priced.term for priced in best.get(graph.root, [])]


def _keep(found: list[Priced]) -> list[Priced]:
    distinct = {priced.text: priced for priced in found}
    return sorted(distinct.values(), key=lambda p: (round(p.cost, 6), len(p.text), p.text))[:KEPT]


def _made(node: ENode, best: dict[str, list[Priced]], usable: Usable, cost: Cost) -> list[Priced]:
    if not isinstance(node.head, tuple):
        return [Priced(0.0, str(node.head), node.head, {})]
    op, _, kwargs = node.head
    choices = [best.get(child, []) for child in node.children]
    return [
        priced
        for combination in islice(product(*choices), COMBINATIONS)
        if (priced := _call(op, kwargs, combination, usable, cost)) is not None
    ]


def _call(op: str, kwargs: object, args: tuple[Priced, ...], usable: Usable, cost: Cost) -> Priced | None:
    call = Call(op, tuple(a.term for a in args), kwargs)  # type: ignore[arg-type]
    if not usable(call):
        return None
    text = f"{op.split('.', 1)[1]}({', '.join([*(a.text for a in args), *(f'{k}={v!r}' for k, v in call.kwargs)])})"
    parts = {text: cost(call)}
    for argument in args:
        parts |= argument.parts
    return Priced(sum(parts.values()), text, call, parts)
