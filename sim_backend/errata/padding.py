"""E-43: lanes of the last stick beyond the size, which nothing clears. Strict mode takes what is in them for NaN.

The simulator's memory has no such lanes: the defect is shown by what it does to a product and to a sum of exponentials.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from sim_backend.errata.products import PRODUCTS, STICK, sizes_of
from sim_backend.errata.rule import Call, Rule, Wrong
from sim_backend.profiles import Profile

EXPONENTIALS = "sums exponentials"  # the word of compiler.context on a sum of what exp made


def _missing_lanes(profile: Profile, size: int) -> int:
    return -size % STICK if profile.errata["E-43"]["mode"] == "strict" else 0


def _padded_product(profile: Profile, call: Call) -> str | None:
    k = sizes_of(call).k
    missing = _missing_lanes(profile, k) if call.operands[-1].is_half else 0
    return f"K = {k} leaves {missing} padding lanes that nothing clears" if missing else None


def all_nan(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """0 x NaN of a padding lane poisons every sum of the product."""
    return torch.full_like(result, math.nan)


def _padded_exponentials(profile: Profile, call: Call) -> str | None:
    x, dims = call.operands[0], call.args[1] if len(call.args) > 1 else None
    if not x.shape:
        return None
    along_stick = not dims or any(int(d) % len(x.shape) == len(x.shape) - 1 for d in dims)
    if EXPONENTIALS not in call.context or not along_stick or not x.is_half:
        return None
    missing = _missing_lanes(profile, x.shape[-1])
    return f"exp of {missing} padding lanes in a sum over {x.shape[-1]}" if missing else None


def all_infinite(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """exp of a padding lane is infinite, and so is every sum that takes it in; DL16 has one code for that and NaN."""
    return torch.full_like(result, math.inf)


RULES: tuple[Rule, ...] = (
    Rule("E-43", PRODUCTS, _padded_product, Wrong(all_nan)),
    Rule("E-43", frozenset(["aten.sum"]), _padded_exponentials, Wrong(all_infinite)),
)
