"""Facts 6.5: means of small values, ranks, integers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from anchors.published import Right, Wrong, unsupported
from anchors.stimulus import APR, AUG, SEP, Pair, both, compiled, normal, stimulus, there
from torch import Tensor


def _squares(reduce: Callable[[Tensor], Tensor], dtype: torch.dtype = torch.float16) -> Tensor:
    """The vector of #2400, squared and reduced in eager calls; how many times the right mean comes out."""
    x = (torch.randn(4096, generator=torch.Generator().manual_seed(42)) * 0.001).half()
    held = there(x, dtype)
    return reduce(held * held).cpu().float() / (x.float() ** 2).mean()


@stimulus("E-39", "1.6", published={p: Right(1.0) for p in (APR, AUG, SEP)})
def mean_of_small_values() -> Pair:
    return _squares(torch.mean), torch.tensor(18.265)


@stimulus("E-39", published={p: Right(0.02) for p in (APR, AUG, SEP)})
def mean_of_small_values_in_bf16() -> Pair:
    return _squares(torch.mean, torch.bfloat16), torch.tensor(0.62)


@stimulus("E-39", published={p: Right(0.3) for p in (APR, AUG, SEP)})
def sum_of_small_values_divided_afterwards() -> Pair:
    return _squares(lambda x: x.sum() / 4096), torch.tensor(2.644)


@stimulus("E-39", published={p: Right(0.005) for p in (APR, AUG, SEP)})
def sum_of_small_values() -> Pair:
    return _squares(torch.sum) / 4096, torch.tensor(1.003)


@stimulus("E-39", published={APR: Right(0.01), AUG: Right(0.01), SEP: Right(0.01)})
def mean_of_usual_values() -> Pair:
    return both(lambda x: x.mean(-1), 1 + normal(64, 128))


@stimulus("E-40", published={APR: Wrong(), AUG: Right(0.5)})
def sum_over_all_dims_of_rank_five() -> Pair:
    return both(torch.sum, normal(2, 3, 2, 4, 64))


@stimulus("E-40", published={APR: Wrong(), AUG: Right(0.02)})
def mean_of_three_by_seven_by_nine() -> Pair:
    return both(lambda x: x.mean(dim=2), normal(3, 7, 9))


@stimulus("E-40", published={APR: Right(0)})
def sum_of_integers_is_zero() -> Pair:
    return compiled(lambda x: x.sum(-1), torch.full((64, 64), 3)).cpu().float(), torch.zeros(64)


@stimulus("E-40", published={APR: unsupported("")})
def sum_of_fp16_in_fp32() -> Pair:
    return both(lambda x: x.sum(-1, dtype=torch.float32), normal(64, 64))


@stimulus("E-40", published={APR: Wrong(), AUG: Right(0.001)})
def mean_in_fp32() -> Pair:
    return both(lambda x: x.mean(-1), 1 + normal(64, 128), dtype=torch.float32)
