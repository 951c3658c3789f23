"""Facts 1.6: what copies and formats do to single values, as published."""

from __future__ import annotations

import torch
from anchors.published import NotANumber, Right
from anchors.stimulus import APR, AUG, SEP, Pair, compiled, eager, stimulus, there

LOWEST = -65504.0


def _row(*values: float) -> torch.Tensor:
    return torch.tensor(values).repeat(64 // len(values))


@stimulus("1.6", published={APR: Right(0)})
def lowest_fp16_comes_back_as_infinity() -> Pair:
    return there(_row(LOWEST)), _row(-torch.inf)


@stimulus("1.6", published={AUG: Right(0), SEP: Right(0)})
def lowest_fp16_comes_back_as_65472() -> Pair:
    return there(_row(LOWEST)), _row(-65472.0)


@stimulus("1.6", published={AUG: Right(0), SEP: Right(0)})
def infinities_come_back() -> Pair:
    return there(_row(torch.inf, -torch.inf)), _row(torch.inf, -torch.inf)


@stimulus("1.6", published={AUG: Right(0.01), SEP: Right(0.01)})
def minus_infinity_computes_as_a_finite_number() -> Pair:
    result = compiled(lambda x: x * 2.0**-10, _row(-torch.inf))
    return result, _row(-33_521_664 * 2.0**-10)


@stimulus("1.6", "E-21", published={AUG: Right(0.04), SEP: Right(0.04)})
def minus_infinity_counts_in_a_largest_magnitude() -> Pair:
    result = compiled(lambda x: x.abs().amax(-1) * 2.0**-20, _row(1.0, -torch.inf).view(1, 64))
    return result, torch.tensor([33_521_664 * 2.0**-20])


@stimulus("1.6", "E-20", published={AUG: NotANumber(), SEP: NotANumber()})
def minus_infinity_twice_in_bf16() -> Pair:
    return eager(lambda x: x + x, _row(-torch.inf), dtype=torch.bfloat16), _row(-torch.inf)


@stimulus("1.6", published={AUG: Right(0), SEP: Right(0)})
def dl16_to_bf16_truncates() -> Pair:
    result = compiled(lambda x, y: (x * y).to(torch.bfloat16), _row(18.09375, 1.5078125), _row(1.0, 12.0))
    return result, _row(18.0, 18.0)


@stimulus("1.6", published={AUG: Right(6e-5), SEP: Right(6e-5)})
def four_of_five_published_values_are_cut() -> Pair:
    return there(_row(0.1669, 0.1876, 2.002, 1.001)), _row(0.1667, 0.1875, 2.0, 1.0)


@stimulus("1.6", published={APR: Right(6e-5)})
def one_of_five_published_values_goes_up() -> Pair:
    return there(_row(0.5903)), _row(0.5908)


@stimulus("1.6", published={APR: Right(0), AUG: Right(0), SEP: Right(0)})
def integers_are_exact_to_1024() -> Pair:
    x = torch.arange(1024 - 63, 1025).float()
    return there(x), x


@stimulus("1.6", published={APR: Right(0), AUG: Right(0), SEP: Right(0)})
def int64_is_kept_as_int32() -> Pair:
    values = torch.tensor([1, -5, 2**31 - 1, 2**32 + 7])
    return there(values), torch.tensor([1, -5, 2**31 - 1, 7])


@stimulus("1.6", "3.6", published={AUG: Right(0), SEP: Right(0)})
def fp16_to_bf16_is_an_identity_on_the_device() -> Pair:
    x = _row(1.0078125, -3.0, 0.5, 1.9921875)
    return compiled(lambda x: x.to(torch.bfloat16).to(torch.float16), x), x
