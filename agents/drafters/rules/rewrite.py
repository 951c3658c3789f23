"""Applying the rewrite rules to a term: bottom up until none fits, with the chain of rules as proof.

Later this becomes equality saturation over the same rows; what callers see (`rewrite`, `Rewriting`) stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agents.drafters.rules.table import RULES, Guard, Rule
from agents.drafters.rules.terms import Bindings, Call, Const, Term, match, substitute, subterms
from agents.types import Exactness

MAX_STEPS = 1000
"""More steps than any element-wise module has operations: reaching it means that rules undo each other."""

COMPARISONS = frozenset(f"aten.{name}.{form}" for name in ("ge", "gt", "le", "lt") for form in ("Scalar", "Tensor"))
"""Operations whose result is a mask."""


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
    """The rewritten term and the steps that led to it, in order."""

    term: Term
    steps: tuple[Step, ...]

    @property
    def proof(self) -> tuple[str, ...]:
        """The rule chain as text, one line per step."""
        return tuple(str(s) for s in self.steps)

    @property
    def exactness(self) -> Exactness:
        """`bounded` as soon as one step is."""
        bounded = any(s.rule.exactness is Exactness.BOUNDED for s in self.steps)
        return Exactness.BOUNDED if bounded else Exactness.EXACT

    @property
    def bound(self) -> float | None:
        """The bounds of the bounded steps added up; None if every step is exact."""
        bounds = [s.rule.bound for s in self.steps if s.rule.bound is not None]
        return sum(bounds) if bounds else None


def rewrite(term: Term, wanted: Callable[[Call], bool], rules: Sequence[Rule] = RULES) -> Rewriting:
    """`term` with every call that `wanted` names replaced by the first rule that fits it.

    Calls no rule fits are left as they are: whoever asks checks what remains. Raises RuntimeError if the rules do not
    come to an end.
    """
    steps: list[Step] = []
    for _ in range(MAX_STEPS):
        step = _next_step(term, wanted, rules)
        if step is None:
            return Rewriting(term, tuple(steps))
        steps.append(step)
        term = replace_term(term, step.before, step.after)
    raise RuntimeError(f"the rewrite rules did not end after {MAX_STEPS} steps; the last was {steps[-1].rule.name!r}")


def _next_step(term: Term, wanted: Callable[[Call], bool], rules: Sequence[Rule]) -> Step | None:
    for part in subterms(term):
        if isinstance(part, Call) and wanted(part):
            for rule in rules:
                bound = match(rule.match, part)
                if bound is not None and holds(rule, bound):
                    return Step(rule, part, substitute(rule.to, bound))
    return None


def replace_term(term: Term, old: Term, new: Term) -> Term:
    """`term` with every occurrence of `old` replaced by `new`."""
    if term == old:
        return new
    if isinstance(term, Call):
        return Call(term.op, tuple(replace_term(a, old, new) for a in term.args), term.kwargs)
    return term


def holds(rule: Rule, bound: Bindings) -> bool:
    """Whether the terms bound by a match meet every guard of the rule."""
    return all(GUARDS[guard](term) for guard in rule.when for term in bound.values())


def is_floating(term: Term) -> bool:
    """Whether a term is a floating-point tensor: documents have floating inputs, and only comparisons make masks."""
    return not isinstance(term, Const) and not (isinstance(term, Call) and term.op in COMPARISONS)


GUARDS: dict[Guard, Callable[[Term], bool]] = {Guard.FLOATING: is_floating}
