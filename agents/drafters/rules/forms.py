"""Structural patterns found by the rules for whole rows, where a diagnosis names none that can be used.

The stock formulas that the library's patterns replace are terms (`derivations`). Where one of them holds the operation
that fails, the cheapest equal form without it, and without what the profile lacks, is searched (`rewrite_rows`). A
pattern whose own formula is such a form, and not much dearer than the cheapest, is a cure. Whether the model holds the
formula is for the patch to find, and whether the patch is right for the gate.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from agents.drafters.rules.derivations import Derivation, derivation_of
from agents.drafters.rules.operations import STANDS_FOR
from agents.drafters.rules.patterns import PATTERNS
from agents.drafters.rules.rows import cost_of_rows, lacks, rewrite_rows
from agents.drafters.rules.terms import Call, Term, subterms
from agents.types import Failure, FailureKind, PatternUse

REFUSED = frozenset(
    {
        FailureKind.UNSUPPORTED_OP,
        FailureKind.UNSUPPORTED_DTYPE,
        FailureKind.LAYOUT,
        FailureKind.CPU_FALLBACK,
        FailureKind.WRONG_VALUES,
        FailureKind.NON_FINITE,
    }
)
"""Kinds that another form of the same formula may cure."""

SEARCHED = ("P03", "P11", "P42")
"""Patterns whose formula holds an operation that stands in no other formula: erf, layer norm, fused attention. What is
also used elsewhere (powers, joined halves) does not say which formula it belongs to: there the diagnosis must."""

DEARER = 1.5
"""What a pattern's formula may cost beside the cheapest form: patches keep softmax whole, which rules take apart."""

WRITTEN = {
    "native_layer_norm": "layer_norm",
    "_softmax": "softmax",
    "_safe_softmax": "softmax",
    "_fused_rms_norm": "rms_norm",
    "_scaled_dot_product_fused_attention_overrideable": "scaled_dot_product_attention",
    "_scaled_dot_product_flash_attention_for_cpu": "scaled_dot_product_attention",
}
"""Operations that a compiler meets, as the model writes them."""


def forms_for(failure: Failure, profile: str) -> Iterator[PatternUse]:
    """The patterns whose formula is a form without the failing operation, in the order of SEARCHED."""
    if failure.kind not in REFUSED or failure.place != "block":
        return
    for pattern in SEARCHED:
        use = PatternUse(pattern, dict(PATTERNS[pattern].defaults))
        derivation = derivation_of(pattern, use.parameters)
        if derivation is not None and _becomes(derivation, written(failure.op), profile):
            yield use


def written(op: str) -> str:
    """The name of an operation as the model writes it: `layer_norm` of `aten.native_layer_norm.default`."""
    name = STANDS_FOR.get(op, op).removeprefix("aten.").partition(".")[0]
    return WRITTEN.get(name, name)


@cache
def _becomes(derivation: Derivation, name: str, profile: str) -> bool:
    """Whether the stock formula has forms without the operation, and the pattern's is one of the cheap ones."""
    missing = lacks(profile)

    def unwanted(call: Call) -> bool:
        return written(call.op) == name or missing(call)

    if name not in {written(call.op) for call in _calls(derivation.stock)}:
        return False
    if any(unwanted(call) for call in _calls(derivation.patched)):
        return False
    cheapest = rewrite_rows(derivation.stock, unwanted)
    return cheapest.proved and _cost(derivation.patched) <= DEARER * _cost(cheapest.term)


def _calls(term: Term) -> list[Call]:
    return [part for part in subterms(term) if isinstance(part, Call)]


def _cost(term: Term) -> float:
    return sum(cost_of_rows(call) for call in _calls(term))
