"""Every row of the rule table, tested as it stands: inside its domain, outside it, at its near misses, and mutated."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor

from adapters.document_ops import OPERATORS
from agents.drafters.rules.rewrite import holds
from agents.drafters.rules.rule import Rule
from agents.drafters.rules.table import RULES
from agents.drafters.rules.terms import (
    Call,
    Const,
    Hole,
    Input,
    Number,
    Sort,
    Term,
    match,
    sort_of,
    substitute,
    subterms,
)

EPSILON = 2.0**-52
NAMES = [rule.name for rule in RULES]
LEAST = 1e-300

Values = dict[str, Tensor]


def evaluate(term: Term, values: Values) -> Tensor:
    if isinstance(term, Hole | Input):
        return values[term.name]
    assert isinstance(term, Call)
    args = [a.value if isinstance(a, Const) else evaluate(a, values) for a in term.args]
    return OPERATORS[term.op](*args, **dict(term.kwargs))


def variants(rule: Rule) -> list[Rule]:
    """The rule once for each choice of its sample numbers."""
    names = sorted({t.name for t in subterms(rule.match) if isinstance(t, Number)})
    choices = [[value for name, value in rule.samples if name == wanted] for wanted in names]
    assert all(choices), f"{rule.name} has no sample numbers"
    bound = [{name: Const(v) for name, v in zip(names, row, strict=True)} for row in product(*choices)]
    return [replace(rule, match=fixed(rule.match, b), to=fixed(rule.to, b)) for b in bound]


def fixed(term: Term, numbers: dict[str, Const]) -> Term:
    holes = {t.name: t for t in subterms(term) if isinstance(t, Hole)}
    return substitute(term, {**holes, **numbers})


def samples(rule: Rule, count: int = 20_000) -> Values:
    """Both signs where the domain has them, uniform in the exponent, each hole with numbers of its own."""
    generator = torch.Generator().manual_seed(20_260_801)
    holes = sorted({(t.name, t.sort) for t in subterms(rule.match) if isinstance(t, Hole)})
    return {name: draw(rule, sort, count, generator) for name, sort in holes}


def draw(rule: Rule, sort: Sort, count: int, generator: torch.Generator) -> Tensor:
    if sort is Sort.MASK:
        return torch.rand(count, generator=generator) < 0.5
    low, high = math.log(max(rule.domain.smallest, LEAST)), math.log(rule.domain.high)
    size = torch.exp(torch.rand(count, generator=generator, dtype=torch.float64) * (high - low) + low)
    near = torch.rand(count, generator=generator, dtype=torch.float64) * 8
    half = torch.arange(count) % 2 == 0
    size = torch.where(half & (near >= rule.domain.smallest) & (near <= rule.domain.high), near, size)
    sign = torch.where(torch.rand(count, generator=generator) < 0.5, -1.0, 1.0) if rule.domain.low < 0 else 1.0
    return (size * sign).clamp(rule.domain.low, rule.domain.high)


def worst(rule: Rule, values: Values) -> float:
    """The largest difference as the rule measures it: in fp64 ulp of max(|y|, scale); bounded ones of max(|y|, 1)."""
    stock, other = evaluate(rule.match, values), evaluate(rule.to, values)
    if not torch.equal(stock.isnan(), other.isnan()):
        return math.inf
    unit = EPSILON if rule.bound is None else 1.0
    floor = max(rule.scale, 1.0 if rule.bound is not None else 0.0)
    difference = (stock - other).abs() / (stock.abs().clamp(min=floor) * unit)
    kept = difference[stock.isfinite() & other.isfinite() & (difference > 0)]
    return float(kept.max()) if kept.numel() else 0.0


def allowed(rule: Rule) -> float:
    return rule.max_ulp if rule.bound is None else rule.bound


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_both_sides_agree_over_the_whole_domain_in_fp64(rule: Rule) -> None:
    for variant in variants(rule):
        assert worst(variant, samples(variant)) <= allowed(rule), str(variant)


@pytest.mark.parametrize("rule", [r for r in RULES if r.outside is not None], ids=lambda r: r.name)
def test_both_sides_differ_outside_the_domain(rule: Rule) -> None:
    dtype = torch.float16 if rule.name.startswith("pow") else torch.float64
    assert rule.outside is not None
    [variant, *_] = variants(rule)
    values = {
        t.name: torch.tensor([False, True]) if t.sort is Sort.MASK else torch.full((2,), rule.outside, dtype=dtype)
        for t in subterms(rule.match)
        if isinstance(t, Hole)
    }
    stock, other = evaluate(variant.match, values), evaluate(variant.to, values)
    assert not torch.allclose(stock, other, rtol=1e-6, atol=0, equal_nan=True)


@pytest.mark.parametrize("rule", [r for r in RULES if r.near_misses], ids=lambda r: r.name)
def test_near_misses_do_not_match_and_would_be_wrong(rule: Rule) -> None:
    [variant, *_] = variants(rule)
    x = {name: torch.tensor([1.7], dtype=torch.float64) for name in ("x", "y")}
    for term in rule.near_misses:
        assert match(rule.match, substitute(term, {"x": Input("x"), "y": Input("y")})) is None
        assert not torch.allclose(evaluate(term, x), evaluate(variant.to, x), rtol=1e-5)


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_the_property_test_catches_a_result_that_is_off_by_a_thousandth(rule: Rule) -> None:
    [variant, *_] = variants(rule)
    wrong = replace(variant, to=Call("aten.mul.Tensor", (variant.to, Const(1.001))))
    assert worst(wrong, samples(wrong)) > allowed(rule)


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_no_rule_takes_a_mask_for_a_value(rule: Rule) -> None:
    mask = Call("aten.gt.Scalar", (Input("x"), Const(0.0)))
    filled = {t.name: mask for t in subterms(rule.match) if isinstance(t, Hole)}
    numbers = {name: Const(value) for name, value in rule.samples}
    assert match(rule.match, substitute(rule.match, {**filled, **numbers})) is None


def test_numbers_that_a_rule_excludes_do_not_fit() -> None:
    rule = next(r for r in RULES if r.name == "division_by_number")
    bound = match(rule.match, Call("aten.div.Tensor", (Input("x"), Const(0.0))))
    assert bound is not None
    assert not holds(rule, bound)


def test_names_are_unique_and_sides_are_of_one_sort_with_the_same_holes() -> None:
    assert len(set(NAMES)) == len(NAMES)
    for rule in RULES:
        assert sort_of(rule.match) is sort_of(rule.to)
        left, right = ({t for t in subterms(side) if isinstance(t, Hole)} for side in (rule.match, rule.to))
        assert right <= left
