"""The rewrite rules, as data: what is replaced by what, where both agree, and how closely.

A row is tested as it stands (`tests/agents/drafters/test_rewrite_rules.py`): random inputs of its domain in fp64, the
counter-example outside its domain, and the near misses it must not match. Forms and bounds follow the pattern library.
"""

from __future__ import annotations

from agents.drafters.rules.activations import ELEMENTWISE
from agents.drafters.rules.attention import SCORES
from agents.drafters.rules.heads import SHARED_HEADS
from agents.drafters.rules.norms import NORMS
from agents.drafters.rules.powers import POW, POWERS, power, product
from agents.drafters.rules.rule import Domain, Rule
from agents.drafters.rules.softmax import SOFTMAX

__all__ = ["POW", "ROW_RULES", "RULES", "Domain", "Rule", "power", "product"]

RULES: tuple[Rule, ...] = (*POWERS, *ELEMENTWISE)
"""Every rule for documents of one value."""

ROW_RULES: tuple[Rule, ...] = (*NORMS, *SOFTMAX, *SCORES, *SHARED_HEADS)
"""Rules for whole rows: norms, attention, gates, rotations, look-ups, heads. Element-wise rules hold beside them."""
