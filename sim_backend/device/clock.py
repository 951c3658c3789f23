"""Simulated time of eager operations (facts 7.5); wall time never enters.

A host queues work on streams, which do it in order. An eager operation takes host time, then its stream the larger of
bytes over memory bandwidth and FLOP over the compute rate. Copies between host and device take bytes over PCIe. What
events measure is this time; nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch

from sim_backend.device import ext


def set_costs(profile: Any) -> None:
    """Take the costs of `profile`."""
    costs = profile.clock
    ext.set_costs(
        memory_bytes_per_ns=costs["memory_gb_per_s"],
        flop_per_ns=costs["compute_tflops"] * 1e3,
        host_bytes_per_ns=costs["host_gb_per_s"],
        eager_ns=costs["eager_us"] * 1e3,
        launch_ns=costs["launch_us"] * 1e3,
        poll_ns=costs["poll_us"] * 1e3,
    )


def host_time_ms() -> float:
    """The simulated time of the host, in milliseconds since the device started."""
    return float(ext.host_time()) / 1e6


def charge(op: str, operands: list[torch.Tensor], results: Any) -> None:
    """Let time pass for the eager operation `op` ("aten.mm.default")."""
    made = [r for r in (results if isinstance(results, list | tuple) else [results]) if isinstance(r, torch.Tensor)]
    bytes_moved = sum(t.numel() * t.element_size() for t in (*operands, *made))
    ext.queue_eager(float(bytes_moved), float(flop(op, operands, made)))


def charge_host() -> None:
    """Let the host time of one eager operation pass, and none of the device."""
    ext.queue_eager(0.0, 0.0)


def flop(op: str, operands: list[torch.Tensor], made: list[torch.Tensor]) -> int:
    """Floating-point operations: two per multiply-add of a matrix product, else one per element of the results."""
    count = _PRODUCTS.get(op.split(".")[1])
    return count([t.shape for t in operands]) if count else sum(t.numel() for t in made)


def _product(left: int) -> Callable[[list[torch.Size]], int]:
    return lambda shapes: 2 * prod(shapes[left]) * (shapes[left + 1][-1] if len(shapes[left + 1]) > 1 else 1)


def _linear(shapes: list[torch.Size]) -> int:
    return 2 * prod(shapes[0]) * shapes[1][0]


def _attention(shapes: list[torch.Size]) -> int:
    query, key = shapes[:2]
    return 4 * prod(query) * key[-2]


_PRODUCTS: dict[str, Callable[[list[torch.Size]], int]] = {
    "mm": _product(0),
    "bmm": _product(0),
    "matmul": _product(0),
    "addmm": _product(1),
    "baddbmm": _product(1),
    "linear": _linear,
    "scaled_dot_product_attention": _attention,
}
