"""A rule that was stored as data is the rule it was; what is no rule is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents.drafters.rules.table import ROW_RULES, RULES
from agents.drafters.rules.terms import Fold, subterms
from agents.drafters.rules.written import rule_data, rule_from, term_from

PLAIN = [r for r in (*RULES, *ROW_RULES) if not any(isinstance(t, Fold) for t in subterms(r.to))]


def test_every_rule_of_the_table_without_a_fold_comes_back_from_json() -> None:
    assert len(PLAIN) > 60
    for rule in PLAIN:
        found = rule_from(json.loads(json.dumps(rule_data(rule))))
        assert (found.name, found.match, found.to) == (rule.name, rule.match, rule.to)
        assert (found.domain, found.near_misses) == (rule.domain, rule.near_misses)


def test_a_calculated_constant_is_not_stored() -> None:
    folding = next(r for r in RULES if any(isinstance(t, Fold) for t in subterms(r.to)))
    with pytest.raises(ValueError, match="cannot be stored"):
        rule_data(folding)


def nested(depth: int) -> Any:
    term: Any = ["hole", "x", "T", False]
    for _ in range(depth):
        term = ["call", "aten.neg.default", [term], []]
    return term


@pytest.mark.parametrize("data", [None, "x", [], ["code", "x"], ["hole", "x", "Z", False], ["const"], nested(100)])
def test_what_is_no_term_is_refused(data: Any) -> None:
    with pytest.raises(ValueError):
        term_from(data)
