"""Equality saturation with egglog: all terms that the rules make of one, as classes of equal terms.

The typed terms become egglog's own sorts, so a rule for values never meets a mask. Nothing is proved by this alone:
`prove` finds the chain of rules for what is extracted, and the verifier checks it again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from agents.drafters.rules.operations import REDUCTIONS, WIDE
from agents.drafters.rules.rule import Rule
from agents.drafters.rules.terms import (
    NUMBERS,
    SCALES,
    Call,
    Const,
    Fold,
    Hole,
    Input,
    Number,
    Scalar,
    Sort,
    Term,
    result_sort,
    sort_of,
    subterms,
)

ROUNDS, MAX_NODES = 8, 1500
"""Where saturation ends although rules still fit: what has been found by then is equal all the same."""

FOLDED = {
    "product": "(* {} {})",
    "sum": "(+ {} {})",
    "negative": "(neg {})",
    "reciprocal": "(/ 1.0 {})",
    "double": "(* 2.0 {})",
    **{f"over_{k * k}": f"(/ {{}} {float(k * k)!r})" for k in SCALES},
}
"""Folds that egglog calculates itself; rules with others are instantiated for the numbers of the term."""

INPUTS: dict[Sort, str] = {sort: f"In{sort}" for sort in Sort if sort is not Sort.CONSTANT}

Form = tuple[str, tuple[Sort, ...], tuple[tuple[str, Scalar], ...]]


@dataclass
class ENode:
    """One operation over classes, or a leaf."""

    head: Form | Input | Const
    children: tuple[str, ...] = ()


@dataclass
class EGraph:
    """Classes of equal terms by name, and the class of the term it all began with."""

    classes: dict[str, list[ENode]]
    root: str


@dataclass
class _Writer:
    """Writes terms as egglog text and remembers which constructor stands for which form."""

    forms: dict[Form, str] = field(default_factory=dict)
    constants: dict[Scalar, int] = field(default_factory=dict)

    def text(self, term: Term) -> str:
        if isinstance(term, Hole | Number):
            return f"v_{term.name}" if isinstance(term, Hole) else f"(Num n_{term.name})"
        if isinstance(term, Input):
            return f'({INPUTS[sort_of(term)]} "{term.name}")'
        if isinstance(term, Fold):
            return f"(Num {FOLDED[term.name].format(*(f'n_{a}' for a in term.args))})"
        if isinstance(term, Const):
            return self._constant(term)
        form = (term.op, tuple(sort_of(a) for a in term.args), term.kwargs)
        name = self.forms.setdefault(form, f"Op{len(self.forms)}x")  # egglog adds digits for names of its own
        return f"({' '.join([name, *(self.text(a) for a in term.args)])})"

    def _constant(self, term: Const) -> str:
        if term.is_number:
            return f"(Num {float(term.value)!r})"  # type: ignore[arg-type]
        return f"(Lit {self.constants.setdefault(term.value, len(self.constants))})"

    def declarations(self) -> list[str]:
        lines = [f"(sort {sort})" for sort in Sort]
        lines += [f"(constructor {name} (String) {sort})" for sort, name in INPUTS.items()]
        lines += ["(constructor Num (f64) C)", "(constructor Lit (i64) C)"]
        for (op, sorts, _), name in self.forms.items():
            lines.append(f"(constructor {name} ({' '.join(sorts)}) {result_sort(op, sorts)})")
        return lines


def saturate(term: Term, rules: Sequence[Rule]) -> EGraph:
    """Every form that `rules` make of `term`, within ROUNDS and MAX_NODES. Deterministic."""
    from egglog.bindings import EGraph as Engine

    writer = _Writer()
    start = f"(let $root {writer.text(term)})"
    rewrites = [_rewrite(rule, writer) for rule in instances(rules, term) if not isinstance(rule.match, Hole)]
    engine = Engine()
    engine.run_program(*engine.parse_program("\n".join([*writer.declarations(), *rewrites, start])))
    graph, size = _read(engine, writer), 0
    for _ in range(ROUNDS):
        nodes = sum(len(c) for c in graph.classes.values())
        if nodes == size or nodes > MAX_NODES:
            break
        size = nodes
        engine.run_program(*engine.parse_program("(run 1)"))
        graph = _read(engine, writer)
    return graph


def instances(rules: Iterable[Rule], term: Term) -> list[Rule]:
    """The rules as egglog can hold them: once for each sort that a hole may stand for, and with foreign folds done."""
    sorts = NUMBERS if has_rows(term) else (Sort.VALUE,)
    return [made for rule in rules for typed in _typed(rule, sorts) for made in _folded(typed, term)]


def has_rows(term: Term) -> bool:
    """Whether a term knows more than element-wise operations on one tensor."""
    return any(isinstance(t, Call) and (t.op in WIDE or t.op in REDUCTIONS) for t in subterms(term))


def _typed(rule: Rule, sorts: Sequence[Sort]) -> Iterator[Rule]:
    """The rule with every hole for numbers as one of `sorts`; egglog's sorts have no common kind."""
    holes = [t for t in dict.fromkeys(subterms(rule.match)) if isinstance(t, Hole) and len(t.sorts) > 1]
    for chosen in product(sorts, repeat=len(holes)):
        bound = {hole.name: Hole(hole.name, sort, exact=True) for hole, sort in zip(holes, chosen, strict=True)}
        made = replace(rule, match=_retyped(rule.match, bound), to=_retyped(rule.to, bound))
        if sort_of(made.match) is sort_of(made.to):
            yield made


def _retyped(term: Term, bound: dict[str, Hole]) -> Term:
    if isinstance(term, Hole):
        return bound.get(term.name, term)
    if isinstance(term, Call):
        return Call(term.op, tuple(_retyped(a, bound) for a in term.args), term.kwargs)
    return term


def _folded(rule: Rule, term: Term) -> list[Rule]:
    """The rule; one that folds by a function egglog does not have, once for each number of the term."""
    from agents.drafters.rules.rewrite import instantiate

    foreign = [t for t in subterms(rule.to) if isinstance(t, Fold) and t.name not in FOLDED]
    if not foreign:
        return [rule]
    numbers = [t for t in subterms(term) if isinstance(t, Const) and t.is_number]
    return [made for n in numbers if (made := instantiate(rule, foreign[0].args[0], n)) is not None]


def _rewrite(rule: Rule, writer: _Writer) -> str:
    """The rule as egglog text, from what it matches to what it becomes, with conditions on its numbers."""
    when = [f"(!= n_{name} 0.0)" for name in rule.nonzero] + [f"(> n_{name} 0.0)" for name in rule.positive]
    when += [f"(>= n_{name} {float(least)!r})" for name, least in rule.least]
    when += [f"(<= n_{name} {float(most)!r})" for name, most in rule.most]
    used = {t.name for t in subterms(rule.match) if isinstance(t, Number)}
    when = [w for w in when if any(f"n_{name} " in w for name in used)]
    condition = f" :when ({' '.join(when)})" if when else ""
    return f"(rewrite {writer.text(rule.match)} {writer.text(rule.to)}{condition})"


def _read(engine: Any, writer: _Writer) -> EGraph:
    """The classes of the engine's state."""
    data = json.loads(engine.serialize([]).to_json())
    forms = {name: form for form, name in writer.forms.items()}
    literals = {number: value for value, number in writer.constants.items()}
    nodes: dict[str, Any] = data["nodes"]
    classes: dict[str, list[ENode]] = {}
    root = next(name for name, d in data["class_data"].items() if d.get("let") == "$root")
    for node in nodes.values():
        head, kids = node["op"], [nodes[c] for c in node["children"]]
        if head in forms:
            made = ENode(forms[head], tuple(k["eclass"] for k in kids))
        elif head in _LEAVES:
            made = ENode(_LEAVES[head](kids[0]["op"], literals))
        else:
            continue
        classes.setdefault(node["eclass"], []).append(made)
    return EGraph(classes, root)


_LEAVES: dict[str, Any] = {
    **{name: lambda text, _: Input(json.loads(text)) for name in INPUTS.values()},
    "Num": lambda text, _: Const(float(text)),
    "Lit": lambda text, literals: Const(literals[int(text)]),
}
