"""Facts 6.5: means of small values, ranks, integers."""

from __future__ import annotations

import torch
from anchors.published import Right, Wrong, unsupported
from anchors.stimulus import APR, AUG, SEP, Pair, both, compiled, normal, stimulus
from torch import Tensor

SCALES = (1e-2, 1e-3, 1e-4, 1e-5)


def small(scale: float) -> Tensor:
    return (torch.rand(64, 4096, generator=torch.Generator().manual_seed(0)) * scale).half().float()


def _factors(reduce: object, dtype: torch.dtype = torch.float16) -> Tensor:
    """Per row and scale how many times too large or too small the mean is (at least 1)."""
    factors = []
    for scale in SCALES:
        x = small(scale)
        mean = compiled(reduce, x, dtype=dtype).cpu().float()  # type: ignore[arg-type]
        ratio = (mean / x.mean(-1)).clamp_min(1e-6)
        factors.append(torch.maximum(ratio, 1 / ratio))
    return torch.cat(factors)


@stimulus("E-39", "1.6", published={APR: Right(9.2), AUG: Right(9.2)})
def mean_of_small_values() -> Pair:
    return _factors(lambda x: x.mean(-1)).amax(), torch.tensor(18.3)


@stimulus("E-39", published={APR: Right(1.3), AUG: Right(1.3)})
def sum_of_small_values_divided_afterwards() -> Pair:
    return _factors(lambda x: x.sum(-1) / 4096).amax(), torch.tensor(2.6)


@stimulus("E-39", published={APR: Right(0.02), AUG: Right(0.02)})
def sum_of_small_values() -> Pair:
    x = small(1e-3)
    return compiled(lambda x: x.sum(-1), x).cpu().float() / x.sum(-1), torch.ones(64)


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
