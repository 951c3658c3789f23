"""What a form costs on the device, whether the profile computes it, and whether its values stay in the format's range.

It reads the op table and the cost table only: which defects a device has is for the diagnosis to find.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from agents.drafters.rules.rule import LARGEST
from agents.drafters.rules.terms import Call, Const, Term

ELEMENTS = 512 * 3072
"""The size that forms are compared at: costs of element-wise operations are proportional to it."""

COMPUTED = frozenset("NDKV")
"""Cells of the op table that stand for an operation of compiled code: native, decomposed, custom or a view."""

LARGEST_INPUT = 65504.0
"""Activations stay below this wherever fp16 was chosen."""


def cost_of(call: Call) -> float:
    """Simulated nanoseconds of one call at ELEMENTS."""
    from sim_backend.cost import load_costs

    operands = sum(not isinstance(argument, Const) for argument in call.args)
    return load_costs().op_ns(call.op, ELEMENTS, operands)


@cache
def computes(profile: str, call: Call) -> bool:
    """Whether compiled code of the profile has the call; what stands in no row and needs no known function has not."""
    from sim_backend.profiles import load_profile

    table = load_profile(profile)
    numbers = [a.value for a in call.args if isinstance(a, Const) and a.is_number]
    if numbers and not table.compiles_constants:
        return False
    if call.op == "aten.pow.Tensor_Scalar":
        return table.exponent_rule(float(numbers[0])) != "unimplemented"  # type: ignore[arg-type]
    cell = table.cell(call.op, "compiled")
    needs = table.needs(call.op)
    return cell in COMPUTED or (cell == "R" and bool(needs) and set(needs) <= table.loop_ops | table.reductions)


def stays_in_range(stock: Term, term: Term) -> bool:
    """Whether no value of `term` leaves the 16-bit format where those of `stock` do not, by interval analysis.

    At points over all magnitudes that activations have.
    """
    import torch

    from agents.drafters.rules.documents import to_document
    from agents.drafters.rules.intervals import enclose

    size = torch.logspace(-8, 0, 400, dtype=torch.float64) * LARGEST_INPUT
    x = torch.cat([-size, torch.zeros(1, dtype=torch.float64), size])
    before, after = (enclose(to_document(t), x, LARGEST) for t in (stock, term))
    return not bool((before.low.isfinite() & ~(after.low.isfinite() & after.high.isfinite())).any())


def largest_difference(stock: dict[str, Any], document: dict[str, Any]) -> float:
    """The largest |difference| / max(1, |value|) of two documents in fp64, over all magnitudes of activations."""
    import torch

    from adapters.document import build

    fine = torch.linspace(-12, 12, 48_001, dtype=torch.float64)
    size = torch.logspace(-8, 0, 4000, dtype=torch.float64) * LARGEST_INPUT
    x = torch.cat([fine, size, -size])
    expected, found = (build(d).double()(x) for d in (stock, document))
    both = expected.isfinite() & found.isfinite()
    return float(((found - expected).abs() / expected.abs().clamp(min=1.0))[both].max())
