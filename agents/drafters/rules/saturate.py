"""Equality saturation with egglog: all terms that the rules make of one, as classes of equal terms.

The typed terms become egglog's own sorts, so a rule for values never meets a mask. Nothing is proved by this alone:
`prove` finds the chain of rules for what is extracted, and the verifier checks it again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.drafters.rules.rule import Rule
from agents.drafters.rules.terms import Call, Const, Fold, Hole, Input, Number, Scalar, Sort, Term, sort_of, subterms

ROUNDS, MAX_NODES = 8, 1500
"""Where saturation ends although rules still fit: what has been found by then is equal all the same."""

FOLDED = {"product": "(* {} {})", "sum": "(+ {} {})", "negative": "(neg {})", "reciprocal": "(/ 1.0 {})"}
"""Folds that egglog calculates itself; rules with others are instantiated for the numbers of the term."""

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
            return f'({"InM" if sort_of(term) is Sort.MASK else "In"} "{term.name}")'
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
        lines = ["(sort T)", "(sort M)", "(sort C)", "(constructor In (String) T)", "(constructor InM (String) M)"]
        lines += ["(constructor Num (f64) C)", "(constructor Lit (i64) C)"]
        for (op, sorts, kwargs), name in self.forms.items():
            result = sort_of(Call(op, (), kwargs))
            lines.append(f"(constructor {name} ({' '.join(sorts)}) {result})")
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
    """The rules; those that fold by a function egglog does not have, once for each number of the term."""
    from agents.drafters.rules.rewrite import instantiate

    numbers = [t for t in subterms(term) if isinstance(t, Const) and t.is_number]
    found: list[Rule] = []
    for rule in rules:
        foreign = [t for t in subterms(rule.to) if isinstance(t, Fold) and t.name not in FOLDED]
        if not foreign:
            found.append(rule)
            continue
        found += [made for n in numbers if (made := instantiate(rule, foreign[0].args[0], n)) is not None]
    return found


def _rewrite(rule: Rule, writer: _Writer) -> str:
    """The rule as egglog text, from what it matches to what it becomes, with conditions on its numbers."""
    when = [f"(!= n_{name} 0.0)" for name in rule.nonzero] + [f"(> n_{name} 0.0)" for name in rule.positive]
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
    "In": lambda text, _: Input(json.loads(text)),
    "InM": lambda text, _: Input(json.loads(text)),
    "Num": lambda text, _: Const(float(text)),
    "Lit": lambda text, literals: Const(literals[int(text)]),
}
