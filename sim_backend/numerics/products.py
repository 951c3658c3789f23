"""Matrix products of DL16 operands in the order of an accumulation policy (facts 1.6: the format is unknown).

Operands are float32 tensors on the DL16 grid, results are on it. `fp32` rounds once, at the end. `chunked` adds the
products of `chunk` elements of k in fp32 and rounds there and after each chunk is added; `serial` does so element by
element, as reductions did before 2026-05-26.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from sim_backend.numerics import round_dl16_

POLICIES = ("fp32", "chunked", "serial")
Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def product_by(policy: str, chunk: int) -> Product:
    """The DL16 product of [.., m, k] and [.., k, n] under a policy. Raises ValueError for an unknown one."""
    if policy not in POLICIES:
        raise ValueError(f"{policy!r} is none of {', '.join(POLICIES)}")
    if policy == "fp32":
        return exact_product
    step = 1 if policy == "serial" else chunk
    return lambda a, b: accumulated_product(a, b, step)


def exact_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b in fp32, rounded once."""
    return round_dl16_(torch.matmul(a, b))


def accumulated_product(a: torch.Tensor, b: torch.Tensor, step: int) -> torch.Tensor:
    """a @ b with partial sums of `step` elements of k, each rounded, and rounded after each is added."""
    total: torch.Tensor | None = None
    for start in range(0, a.shape[-1], step):
        part = exact_product(a[..., start : start + step], b[..., start : start + step, :])
        total = part if total is None else round_dl16_(total + part)
    return exact_product(a, b) if total is None else total
