"""The chain of rules from a term to another: what is stored with a patch and checked again by the verifier.

Saturation says that the two are equal; the chain shows why, one rule at one place at a time. Where none is found the
answer is None: unknown, not wrong. Then the numeric checks decide alone.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import count

from agents.drafters.rules.rewrite import Step, holds, replace_term
from agents.drafters.rules.rule import Rule
from agents.drafters.rules.terms import Call, Term, match, substitute, subterms

MAX_EXPANDED = 1500


def find_chain(start: Term, goal: Term, rules: Sequence[Rule]) -> tuple[Step, ...] | None:
    """Steps from `start` to `goal`, few if possible; None if none is found within MAX_EXPANDED terms."""
    wanted = frozenset(t for t in subterms(goal) if isinstance(t, Call))
    order = count()
    open_terms: list[tuple[int, int, Term, tuple[Step, ...]]] = [(0, next(order), start, ())]
    seen = {start}
    for _ in range(MAX_EXPANDED):
        if not open_terms:
            return None
        _, _, term, steps = heapq.heappop(open_terms)
        if term == goal:
            return steps
        for step in steps_from(term, rules):
            after = replace_term(term, step.before, step.after)
            if after not in seen:
                seen.add(after)
                heapq.heappush(open_terms, (_far(after, wanted) + len(steps), next(order), after, (*steps, step)))
    return None


def _far(term: Term, wanted: frozenset[Term]) -> int:
    """How much a term lacks of the goal, and has too much; an estimate."""
    held = {t for t in subterms(term) if isinstance(t, Call)}
    return 3 * len(wanted - held) + 3 * len(held - wanted)


def steps_from(term: Term, rules: Sequence[Rule]) -> Iterator[Step]:
    """Every use of a rule that is possible on `term`, in order of place and rule."""
    for part in subterms(term):
        if isinstance(part, Call):
            for rule in rules:
                bound = match(rule.match, part)
                if bound is not None and holds(rule, bound):
                    yield Step(rule, part, substitute(rule.to, bound))
