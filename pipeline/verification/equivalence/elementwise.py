"""Element-wise patches (P01): is the document the same function of one number as the stock module?

Stock and patch are run in fp64 on every value the device can hold, on drawn points and on edges; both are also run with
every result rounded to DL16, where a power or an exponential may leave the range. What counts as equal: 4 units in the
last place, or 1e-12 relative, or inside the enclosure of the stock document, which is wide only where the stock formula
itself cancels (gelu near -8 keeps only quanta of 1 + tanh). Where the two are *proved* to be one function, by a rule
chain that was checked or by SymPy, what is left is rounding: 4 units of max(1, |y|) are allowed (0.5*(1 + tanh(x/2))
for a sigmoid). A proof that does not hold counts for nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from adapters.document import build, capture_module
from adapters.errors import DocumentRefused
from agents.drafters.rules.intervals import Interval, enclose
from agents.types import Exactness
from pipeline.verification.equivalence.chain import check_chain
from pipeline.verification.equivalence.dl16 import run_dl16
from pipeline.verification.equivalence.limits import Limits, limits
from pipeline.verification.equivalence.points import FP16_MAX, dl16_values, edges, points
from pipeline.verification.equivalence.symbolic import same_expression
from pipeline.verification.measurements import Equivalence, EquivalenceResult

_EPS, _TINY = torch.finfo(torch.float64).eps, torch.finfo(torch.float64).tiny

NUMERIC = "every DL16, fp16 and bf16 value and drawn points in fp64, every DL16 value in DL16"


@dataclass(frozen=True)
class Claim:
    """What a patch says of itself: its name, how exact it is, and the stored proof if it has one."""

    patch: str
    exactness: Exactness = Exactness.EXACT
    bound: float | None = None
    proof: tuple[str, ...] = ()


class Fault(NamedTuple):
    """The first thing found that the claim does not allow."""

    text: str
    shown_by: str


class Compared(NamedTuple):
    """Stock and patch at the same points: values, what may differ where (`allowed`), and the scaled difference."""

    x: Tensor
    expected: Tensor
    found: Tensor
    allowed: Tensor
    error: Tensor


def judge_document(claim: Claim, stock: nn.Module, document: dict[str, Any], seed: int) -> Equivalence:
    """Judges a validated element-wise `document` against the `stock` module it replaces.

    `seed` is hidden: it draws the points between the device's values. Neither argument is changed. Raises
    DocumentRefused for a document that breaks a rule.
    """
    original, patched = _stock_document(stock), build(document).double()
    reference = copy.deepcopy(stock).double().eval()
    proof = _proof(claim, original, document)
    with torch.no_grad():
        compared = _compare(reference, patched, points(seed), original, proved=proof is not None)
        fault = _value_fault(claim, compared) or _edge_fault(reference, patched) or _dl16_fault(original, document)
    return _verdict(claim, compared, fault, f"{proof}; {NUMERIC}" if proof else NUMERIC)


def _stock_document(stock: nn.Module) -> dict[str, Any] | None:
    try:
        return capture_module(stock)
    except DocumentRefused:
        return None


def _compare(
    reference: nn.Module, patched: nn.Module, x: Tensor, original: dict[str, Any] | None, *, proved: bool
) -> Compared:
    expected, found = reference(x), patched(x)
    enclosure = Interval(expected, expected) if original is None else enclose(original, x)
    error = torch.where(_identical(expected, found), 0.0, (found - expected).abs() / expected.abs().clamp(min=1.0))
    allowed = _exact(expected, found, enclosure, limits())
    if proved:
        allowed = allowed | (error <= limits().ulp * _EPS)
    return Compared(x, expected, found, allowed, torch.where(allowed & ~error.isfinite(), 0.0, error))


def _identical(expected: Tensor, found: Tensor) -> Tensor:
    return (expected == found) | (expected.isnan() & found.isnan())


def _exact(expected: Tensor, found: Tensor, enclosure: Interval, allowed: Limits) -> Tensor:
    difference = (found - expected).abs()
    size = expected.abs()
    near = (difference <= allowed.ulp * _EPS * size.clamp(min=_TINY)) | (difference <= allowed.relative * size)
    margin = allowed.ulp * _EPS * found.abs()
    inside = (found >= enclosure.low - margin) & (found <= enclosure.high + margin)
    return _identical(expected, found) | near | inside


def _value_fault(claim: Claim, c: Compared) -> Fault | None:
    bad = ~c.allowed if claim.bound is None else ~(c.error <= claim.bound)
    if not bad.any():
        return None
    worst = int(torch.where(bad, c.error.nan_to_num(nan=torch.inf), -1.0).argmax())
    limit = "claims exact" if claim.bound is None else f"claims a bound of {claim.bound:.2g}"
    text = f"{limit}, but {int(bad.sum())} of {len(c.x)} values differ, by {float(c.error[worst]):.2g} at most"
    return Fault(text, _shown(c.x[worst], c.expected[worst], c.found[worst]))


def _shown(x: Tensor, expected: Tensor, found: Tensor) -> str:
    return f"x = {float(x):.17g}: stock gives {float(expected):.9g}, the patch {float(found):.9g}"


def _edge_fault(reference: nn.Module, patched: nn.Module) -> Fault | None:
    """Finite magnitudes beyond the domain within the gate's tolerance for specials; infinities and NaN alike.

    Alike is: equal, or neither a number, since DL16 has one code for infinities and NaN.
    """
    x = edges()
    expected, found = reference(x), patched(x)
    scale = torch.maximum(x.abs(), expected.abs()).clamp(min=1.0)
    near = torch.where(
        x.isfinite(), (found - expected).abs() <= limits().special * scale, ~expected.isfinite() & ~found.isfinite()
    )
    bad = ~(_identical(expected, found) | near)
    if not bad.any():
        return None
    at = int(bad.float().argmax())
    return Fault("differs at infinities, NaN or extremes", _shown(x[at], expected[at], found[at]))


def _dl16_fault(original: dict[str, Any] | None, document: dict[str, Any]) -> Fault | None:
    """A value where the stock operators stay in DL16's range and the patch's do not, among what fp16 models hold."""
    if original is None:
        return None
    x = dl16_values()
    x = x[x.abs() <= FP16_MAX]
    stock, patch = run_dl16(original, x), run_dl16(document, x)
    lost = stock.isfinite() & ~patch.isfinite()
    if not lost.any():
        return None
    at = int(torch.where(lost, x.abs(), torch.inf).argmin())
    return Fault("leaves the range of DL16 where the stock operators do not", _shown(x[at], stock[at], patch[at]))


def _proof(claim: Claim, original: dict[str, Any] | None, document: dict[str, Any]) -> str | None:
    """How both are proved to be one real function; None if they are not."""
    if original is None:
        return None
    if claim.proof and check_chain(original, document, claim.proof).holds:
        return f"rule chain of {len(claim.proof)}, checked"
    return "symbolic, by SymPy" if same_expression(original, document) else None


def _verdict(claim: Claim, c: Compared, fault: Fault | None, method: str) -> Equivalence:
    exact = bool(c.allowed.all())
    finite = bool((c.expected.isfinite() & c.found.isfinite()).any())
    result = EquivalenceResult.EXACT if exact else EquivalenceResult.BOUNDED
    if fault is not None:
        result = EquivalenceResult.NOT_EQUIVALENT
    elif not finite:
        result, fault = EquivalenceResult.UNKNOWN, Fault("no point has a finite value on both sides", "")
    return Equivalence(
        patch=claim.patch,
        claim=str(claim.exactness),
        result=result,
        method=method,
        points=len(c.x) + len(edges()),
        bound=_largest(c.error),
        claimed_bound=claim.bound,
        op="document",
        input_that_shows_it=fault.shown_by if fault else "",
        detail=fault.text if fault else "",
    )


def _largest(error: Tensor) -> float:
    return float("nan") if bool(error.isnan().any()) else float(error.max())


def claims_of(patches: Sequence[dict[str, Any]]) -> list[Claim]:
    """The claims of stored patches (`PatchDraft` as plain data), numbered where a pattern occurs twice."""
    names = [p["pattern"] for p in patches]
    seen: dict[str, int] = {}
    claims = []
    for patch, name in zip(patches, names, strict=True):
        seen[name] = seen.get(name, 0) + 1
        label = name if names.count(name) == 1 else f"{name} ({seen[name]})"
        exactness = Exactness(patch.get("exactness", Exactness.EXACT))
        claims.append(Claim(label, exactness, patch.get("bound"), tuple(patch.get("proof") or ())))
    return claims
