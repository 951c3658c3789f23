"""Every row of the rule table, tested as it stands: inside its domain, outside it, and at its near misses."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.document_ops import OPERATORS
from agents.drafters.rules.rewrite import holds
from agents.drafters.rules.table import RULES, Rule
from agents.drafters.rules.terms import Call, Const, Hole, Input, Term, match, substitute

EPSILON = 2.0**-52
NAMES = [rule.name for rule in RULES]


def evaluate(term: Term, x: torch.Tensor) -> torch.Tensor:
    if isinstance(term, Hole | Input):
        return x
    assert isinstance(term, Call)
    args = [a.value if isinstance(a, Const) else evaluate(a, x) for a in term.args]
    op = OPERATORS[term.op]
    return op(*args, **dict(term.kwargs))


def worst_ulp(rule: Rule, x: torch.Tensor) -> float:
    stock, other = evaluate(rule.match, x), evaluate(rule.to, x)
    assert torch.equal(stock.isnan(), other.isnan())
    difference = (stock - other).abs() / (stock.abs() * EPSILON)
    kept = difference[stock.isfinite() & (stock != 0)]
    return float(kept.max()) if kept.numel() else 0.0


def samples(rule: Rule, count: int = 20_000) -> torch.Tensor:
    """Both signs where the domain has them, uniform in the exponent over the whole domain."""
    generator = torch.Generator().manual_seed(20_260_801)
    low, high = math.log(rule.domain.smallest), math.log(rule.domain.high)
    size = torch.exp(torch.rand(count, generator=generator, dtype=torch.float64) * (high - low) + low)
    sign = torch.where(torch.rand(count, generator=generator) < 0.5, -1.0, 1.0) if rule.domain.low < 0 else 1.0
    return (size * sign).clamp(rule.domain.low, rule.domain.high)


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_both_sides_agree_over_the_whole_domain_in_fp64(rule: Rule) -> None:
    assert worst_ulp(rule, samples(rule)) <= rule.max_ulp


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
@settings(max_examples=60, deadline=None, database=None)
@given(data=st.data())
def test_both_sides_agree_on_chosen_values(rule: Rule, data: st.DataObject) -> None:
    domain = rule.domain
    value = data.draw(st.floats(domain.low, domain.high, allow_nan=False))
    if 0 < abs(value) < domain.smallest:
        return
    assert worst_ulp(rule, torch.tensor([value], dtype=torch.float64)) <= rule.max_ulp


@pytest.mark.parametrize("rule", [r for r in RULES if r.outside is not None], ids=lambda r: r.name)
def test_both_sides_differ_outside_the_domain(rule: Rule) -> None:
    x = torch.tensor([rule.outside], dtype=torch.float16)
    stock, other = evaluate(rule.match, x), evaluate(rule.to, x)
    assert not torch.allclose(stock, other, equal_nan=True)


@pytest.mark.parametrize("rule", [r for r in RULES if r.outside is not None], ids=lambda r: r.name)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_roots_change_no_stock_result_even_outside_the_domain(rule: Rule, dtype: torch.dtype) -> None:
    specials = [-0.0, 0.0, -math.inf, math.inf, math.nan, -1.0, 2.0, 3.0] * 4
    x = torch.tensor(specials, dtype=dtype)
    assert torch.allclose(evaluate(rule.match, x), evaluate(rule.to, x), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_near_misses_do_not_match_and_would_be_wrong(rule: Rule) -> None:
    assert rule.near_misses
    x = torch.tensor([1.7], dtype=torch.float64)
    for term in rule.near_misses:
        assert match(rule.match, substitute(term, {"x": Input("x")})) is None
        assert not torch.allclose(evaluate(term, x), evaluate(rule.to, x), rtol=1e-3)


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_no_rule_fits_a_mask(rule: Rule) -> None:
    mask = Call("aten.gt.Scalar", (Input("x"), Const(0.0)))
    bound = match(rule.match, substitute(rule.match, {"x": mask}))
    assert bound is not None
    assert not holds(rule, bound)
    assert holds(rule, {"x": Input("x")})


def test_names_are_unique_and_the_printed_rule_states_its_bound() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert all(f"within {rule.max_ulp} ulp" in str(rule) for rule in RULES)
