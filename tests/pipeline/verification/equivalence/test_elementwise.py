"""Element-wise patches: equal mathematics is exact whatever its order, near mathematics is refused with an input."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from adapters.document import capture_module
from adapters.errors import DocumentRefused
from agents.drafters.rules.documents import without_powers
from agents.types import Exactness
from pipeline.verification.equivalence.elementwise import Claim, claims_of, judge_document
from pipeline.verification.measurements import Equivalence, EquivalenceResult

from .written import Function, Written

ROOT = math.sqrt(2 / math.pi)
SEED = 5


def gelu_new() -> nn.Module:
    from transformers.activations import NewGELUActivation

    return NewGELUActivation()


def tanh_form(x: torch.Tensor, factor: float = 0.044715) -> torch.Tensor:
    return 0.5 * x * (1 + torch.tanh(ROOT * (x + factor * x * x * x)))


def between(x: torch.Tensor, low: float, high: float, value: torch.Tensor) -> torch.Tensor:
    """`value` between the two limits, the tanh form elsewhere."""
    return torch.where(x > low, torch.where(x < high, value, tanh_form(x)), tanh_form(x))


def rational_erf_gelu(x: torch.Tensor) -> torch.Tensor:
    """Abramowitz and Stegun 7.1.26, |error in erf| <= 1.5e-7."""
    z = x * 2**-0.5
    t = 1 / (1 + 0.3275911 * z.abs())
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return 0.5 * x * (1 + torch.sign(z) * (1 - poly * torch.exp(-(z * z))))


def judged(stock: nn.Module, function: Function, bound: float | None = None) -> Equivalence:
    exactness = Exactness.EXACT if bound is None else Exactness.BOUNDED
    return judge_document(Claim("P01", exactness, bound), stock, capture_module(Written(function)), SEED)


EQUAL: dict[str, tuple[nn.Module, Function]] = {
    "products": (gelu_new(), tanh_form),
    "grouped": (gelu_new(), lambda x: 0.5 * x * (1 + torch.tanh(ROOT * x * (1 + 0.044715 * x * x)))),
    "sigmoid of twice": (gelu_new(), lambda x: x * torch.sigmoid(2 * ROOT * (x + 0.044715 * x * x * x))),
    "silu": (nn.SiLU(), lambda x: x * torch.sigmoid(x)),
    "sigmoid by tanh": (nn.Sigmoid(), lambda x: 0.5 * (1 + torch.tanh(x * 0.5))),
    "tanh by sigmoid": (nn.Tanh(), lambda x: 2 * torch.sigmoid(2 * x) - 1),
    "mish": (nn.Mish(), lambda x: x * torch.tanh(nn.functional.softplus(x))),
    "eighth power": (Written(lambda x: x**8), lambda x: ((x * x) * (x * x)) * ((x * x) * (x * x))),
    "root": (Written(lambda x: x**0.5), torch.sqrt),
    "inverse root": (Written(lambda x: x**-0.5), torch.rsqrt),
    "two to the x": (Written(lambda x: torch.pow(2.0, x)), lambda x: torch.exp(x * math.log(2))),
    "squared relu": (Written(lambda x: torch.relu(x) ** 2), lambda x: torch.relu(x) * torch.relu(x)),
}


@pytest.mark.parametrize(("stock", "function"), EQUAL.values(), ids=EQUAL.keys())
def test_the_same_mathematics_in_another_form_is_exact(stock: nn.Module, function: Function) -> None:
    found = judged(stock, function)
    assert found.result is EquivalenceResult.EXACT, found
    assert found.points > 130_000


WRONG: dict[str, Function] = {
    "erf for tanh": nn.functional.gelu,
    "the factor with a digit missing": lambda x: tanh_form(x, 0.44715),
    "the factor with a digit more": lambda x: tanh_form(x, 0.0447151),
    "fourth power of the magnitude": lambda x: 0.5 * x * (1 + torch.tanh(ROOT * (x + 0.044715 * x.abs() ** 4))),
    "zero": lambda x: x * 0.0,
    "identity": lambda x: x * 1.0,
    "relu": torch.relu,
    "never finite": lambda x: torch.log(x - x) + x,
    "a thousandth of a millionth more": lambda x: tanh_form(x) * (1 + 1e-9),
    "wrong in a small window": lambda x: between(x, 3e-7, 3.1e-7, x * 0.6),
    "wrong in the negative tail": lambda x: between(x, -6.1, -6.0, x * 0.0),
}


@pytest.mark.parametrize("function", WRONG.values(), ids=WRONG.keys())
def test_near_mathematics_is_refused_with_the_input_that_shows_it(function: Function) -> None:
    found = judged(gelu_new(), function)
    assert found.result is EquivalenceResult.NOT_EQUIVALENT
    assert found.input_that_shows_it.startswith("x = ")
    assert "stock gives" in found.input_that_shows_it


def test_tanh_for_erf_is_shown_where_the_two_differ_most() -> None:
    found = judged(nn.GELU(), tanh_form)
    assert found.result is EquivalenceResult.NOT_EQUIVALENT
    assert abs(abs(float(found.input_that_shows_it.split()[2].rstrip(":"))) - 2.70) < 0.03
    assert found.bound == pytest.approx(4.73e-4, rel=0.01)


def test_a_bounded_claim_is_held_to_its_bound() -> None:
    assert judged(nn.GELU(), rational_erf_gelu, 1e-6).result is EquivalenceResult.BOUNDED
    assert judged(nn.GELU(), rational_erf_gelu, 1e-9).result is EquivalenceResult.NOT_EQUIVALENT
    assert judged(nn.GELU(), rational_erf_gelu).result is EquivalenceResult.NOT_EQUIVALENT


def test_a_form_that_leaves_dl16_where_the_stock_form_does_not_is_refused() -> None:
    found = judged(nn.SiLU(), lambda x: x / (1 + torch.exp(-x)))
    assert found.result is EquivalenceResult.NOT_EQUIVALENT
    assert "DL16" in found.detail
    assert "x = -22.875" in found.input_that_shows_it


@pytest.mark.parametrize("function", [lambda x: x.clamp(-3e4, 3e4), lambda x: x.clamp_max(1e6)], ids=["3e4", "1e6"])
def test_a_clamp_inside_the_domain_is_refused(function: Function) -> None:
    assert judged(Written(lambda x: x * 1.0), function).result is EquivalenceResult.NOT_EQUIVALENT


def test_cancellation_hidden_in_an_equal_expression_is_refused() -> None:
    found = judged(Written(lambda x: x * 1.0), lambda x: (x + 1e6) - 1e6)
    assert found.result is EquivalenceResult.NOT_EQUIVALENT


def test_a_removable_hole_is_refused_at_the_hole() -> None:
    found = judged(Written(lambda x: x * 1.0), lambda x: (x * x) / x)
    assert found.result is EquivalenceResult.NOT_EQUIVALENT
    assert found.input_that_shows_it.startswith(("x = 0", "x = -0"))


def test_a_nan_turned_into_a_number_is_refused() -> None:
    found = judged(Written(torch.relu), lambda x: torch.where(x > 0, x, 0.0))
    assert found.result is EquivalenceResult.NOT_EQUIVALENT
    assert "nan" in found.input_that_shows_it


def test_the_document_the_rules_draft_is_exact_by_its_checked_chain() -> None:
    from agents.drafters.rules.documents import to_document, to_term
    from agents.drafters.rules.rewrite import rewrite

    rewriting = rewrite(to_term(capture_module(gelu_new())), lambda call: call.op == "aten.pow.Tensor_Scalar")
    claim = Claim("P01", proof=rewriting.proof)
    found = judge_document(claim, gelu_new(), to_document(rewriting.term), SEED)
    assert found.result is EquivalenceResult.EXACT
    assert found.method.startswith("rule chain of 9, checked")


def test_products_made_by_the_pattern_library_are_exact() -> None:
    document = without_powers(capture_module(gelu_new()))
    assert judge_document(Claim("P01"), gelu_new(), document, SEED).result is EquivalenceResult.EXACT


def test_a_false_proof_does_not_excuse_a_wrong_document() -> None:
    claim = Claim("P01", proof=("pow(x, 3) -> mul(x, x) by pow_cube: trust me",))
    document = capture_module(Written(lambda x: tanh_form(x, 0.0447151)))
    found = judge_document(claim, gelu_new(), document, SEED)
    assert found.result is EquivalenceResult.NOT_EQUIVALENT
    assert "rule chain" not in found.method


def test_a_stock_module_without_a_document_is_compared_by_values_alone() -> None:
    assert judged(nn.PReLU(init=0.25), lambda x: nn.functional.leaky_relu(x, 0.25)).result is EquivalenceResult.EXACT
    assert judged(nn.PReLU(init=0.25), torch.relu).result is EquivalenceResult.NOT_EQUIVALENT


def test_nothing_finite_to_compare_is_unknown() -> None:
    nothing = Written(lambda x: torch.log(-(x * x) - 1.0))
    assert judged(nothing, nothing.function).result is EquivalenceResult.UNKNOWN


def test_a_document_that_breaks_a_rule_is_refused_before_it_runs() -> None:
    with pytest.raises(DocumentRefused):
        judge_document(Claim("P01"), nn.GELU(), {"version": 1, "nodes": [{"op": "aten.rand"}], "output": {"ref": 1}}, 0)


def test_modules_are_left_as_they_were() -> None:
    stock = nn.PReLU()
    judged(stock, torch.relu)
    assert stock.weight.dtype is torch.float32


def test_claims_number_patterns_that_occur_twice() -> None:
    patches = [{"pattern": "P01"}, {"pattern": "P20", "exactness": "exact"}, {"pattern": "P01", "bound": 0.1}]
    assert [c.patch for c in claims_of(patches)] == ["P01 (1)", "P20", "P01 (2)"]
    assert claims_of(patches)[2].bound == 0.1
