"""A stored proof, checked: each line must be a use of a rule of the table on the term at hand, the last term the patch.

The text of a line is only compared. What is applied is the table's rule of that name, at a place where it matches and
its guards hold, so a line that claims more than its rule leads nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from agents.drafters.rules.documents import NotRewritable, to_term
from agents.drafters.rules.prove import steps_from
from agents.drafters.rules.rewrite import replace_term
from agents.drafters.rules.table import RULES
from agents.types import Exactness

MAX_LINES = 256


class Chain(NamedTuple):
    """`holds` says that the proof leads from stock to patch; `reason` says where it does not."""

    holds: bool
    exactness: Exactness
    reason: str


def check_chain(stock: dict[str, Any], document: dict[str, Any], proof: Sequence[str]) -> Chain:
    """Replays `proof` from the stock document's term. Never raises for a false proof: that is an answer."""
    try:
        term, goal = to_term(stock), to_term(document)
    except NotRewritable as error:
        return Chain(False, Exactness.EXACT, str(error))
    if len(proof) > MAX_LINES:
        return Chain(False, Exactness.EXACT, f"the proof has more than {MAX_LINES} lines")
    exactness = Exactness.EXACT
    for number, line in enumerate(proof, start=1):
        step = next((s for s in steps_from(term, RULES) if str(s) == line), None)
        if step is None:
            return Chain(False, exactness, f"line {number} of the proof is no use of a rule here")
        exactness = step.rule.exactness if step.rule.exactness is Exactness.BOUNDED else exactness
        term = replace_term(term, step.before, step.after)
    if term != goal:
        return Chain(False, exactness, "the proof ends at another term than the patch")
    return Chain(True, exactness, "")
