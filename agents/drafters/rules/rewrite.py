"""From a term to the cheapest equal one that may be used, with the chain of rules as proof."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agents.drafters.rules.rule import Rule
from agents.drafters.rules.terms import Bindings, Call, Const, Number, Term, substitute, subterms
from agents.types import Exactness


@dataclass(frozen=True)
class Step:
    """One use of a rule: what it replaced by what."""

    rule: Rule
    before: Term
    after: Term

    def __str__(self) -> str:
        return f"{self.before} -> {self.after} by {self.rule}"


@dataclass(frozen=True)
class Rewriting:
    """The rewritten term and the steps that led to it, in order; `proved` is false where no chain was found."""

    term: Term
    steps: tuple[Step, ...] = ()
    proved: bool = True
    approximate: tuple[float, ...] = ()
    """The bounds of the approximating rules that may have been used where no chain was found."""

    @property
    def proof(self) -> tuple[str, ...]:
        """The rule chain as text, one line per step."""
        return tuple(str(s) for s in self.steps)

    @property
    def exactness(self) -> Exactness:
        """`bounded` as soon as one step is."""
        return Exactness.EXACT if self.bound is None else Exactness.BOUNDED

    @property
    def bound(self) -> float | None:
        """The bounds of the bounded steps added up; None if every step is exact."""
        bounds = [*(s.rule.bound for s in self.steps if s.rule.bound is not None), *self.approximate]
        return sum(bounds) if bounds else None


Wanted = Callable[[Call], bool]
Cost = Callable[[Call], float]
InRange = Callable[[Term], bool]


def one_each(call: Call) -> float:
    """Every operation costs the same."""
    return 1.0


def rewrite(
    term: Term,
    wanted: Wanted,
    rules: Sequence[Rule] | None = None,
    cost: Cost = one_each,
    in_range: InRange = lambda term: True,
) -> Rewriting:
    """The cheapest term equal to `term` without any call that `wanted` names and for which `in_range` holds.

    Exact rules come first: approximating ones are tried only where those lead nowhere. Without a call that must go, or
    without a way to be rid of it, the term is left as it is: whoever asks checks what remains.
    """
    from agents.drafters.rules.extract import cheapest
    from agents.drafters.rules.saturate import saturate
    from agents.drafters.rules.table import RULES

    given = tuple(RULES if rules is None else rules)
    if not any(isinstance(part, Call) and wanted(part) for part in subterms(term)):
        return Rewriting(term)
    for chosen in _tiers(given):
        found = cheapest(saturate(term, chosen), lambda call: not wanted(call), cost)
        fitting = [candidate for candidate in found if in_range(candidate)]
        if fitting:
            return _explained(term, fitting, chosen)
    return Rewriting(term)


def _tiers(rules: tuple[Rule, ...]) -> list[tuple[Rule, ...]]:
    """Exact rules, exact rules that hold values in range instead, and those with approximations."""
    held = {rule.holds_back for rule in rules if rule.holds_back}
    short = tuple(rule for rule in rules if not rule.holds_back)
    long = tuple(rule for rule in rules if rule.name not in held)
    wanted = [tuple(r for r in short if r.bound is None), tuple(r for r in long if r.bound is None), short, long]
    return list(dict.fromkeys(wanted))


def _explained(term: Term, found: Sequence[Term], rules: Sequence[Rule]) -> Rewriting:
    """The cheapest of `found` with its proof; without one, with the bounds of every rule that may have been used."""
    from agents.drafters.rules.prove import find_chain

    steps = find_chain(term, found[0], rules)
    if steps is not None:
        return Rewriting(found[0], steps)
    return Rewriting(found[0], proved=False, approximate=tuple(sorted({r.bound for r in rules if r.bound is not None})))


def replace_term(term: Term, old: Term, new: Term) -> Term:
    """`term` with every occurrence of `old` replaced by `new`."""
    if term == old:
        return new
    if isinstance(term, Call):
        return Call(term.op, tuple(replace_term(a, old, new) for a in term.args), term.kwargs)
    return term


def holds(rule: Rule, bound: Bindings) -> bool:
    """Whether the numbers bound by a match meet the rule's conditions."""
    return (
        all(_value(bound, name) != 0 for name in rule.nonzero)
        and all(_value(bound, name) > 0 for name in rule.positive)
        and all(_value(bound, name, least) >= least for name, least in rule.least)
        and all(_value(bound, name, most) <= most for name, most in rule.most)
    )


def _value(bound: Bindings, name: str, unbound: float = 1.0) -> float:
    term = bound.get(name)
    return float(term.value) if isinstance(term, Const) and isinstance(term.value, int | float) else unbound


def instantiate(rule: Rule, name: str, number: Const) -> Rule | None:
    """The rule with the number called `name` fixed; None if the rule's conditions exclude it."""
    bound = {name: number}
    if not holds(rule, bound):
        return None
    return replace(rule, match=_fixed(rule.match, bound), to=_fixed(rule.to, bound))


def _fixed(term: Term, bound: dict[str, Const]) -> Term:
    from agents.drafters.rules.terms import Fold

    if isinstance(term, Number):
        return bound.get(term.name, term)
    if isinstance(term, Fold) and set(term.args) <= set(bound):
        return substitute(term, bound)
    if isinstance(term, Call):
        return Call(term.op, tuple(_fixed(a, bound) for a in term.args), term.kwargs)
    return term
