"""The second executor: an interpreter of ATen graphs that rounds to DL16 after every operation.

Written independently of the compiler, its runtime and the eager path, so that they and it can disagree. It is
compared with them one operation at a time: after each node the compiled path's value takes the place of its own, so
that differences do not add up.

What may differ, and why: an operation on two operands is computed in float32 on the device and in float64 here, so a
result is rounded twice there and once here; a product's float32 sums have another order in another shape. Both move a
result by one step at most, where the exact value lies near the middle between two DL16 values.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import torch
from second_executor.arithmetic import ulps
from second_executor.operations import HALF, OPERATIONS, Context
from torch import Tensor, fx
from torch.fx import GraphModule, Node

from sim_backend.profiles import Profile


class Difference(NamedTuple):
    """How far the compiled result of one operation is from the second executor's, on the same inputs."""

    node: str
    operation: str
    steps: int  # DL16 steps; for other formats 0 if equal to 1e-6, else 65,536
    elements: int


class SecondExecutor(fx.Interpreter):
    """Runs `graph` on values. `given` holds the compiled value of a node, compared and then used in its place."""

    def __init__(self, graph: GraphModule, profile: Profile, given: dict[str, Tensor] | None = None) -> None:
        super().__init__(graph)
        self.profile = profile
        self.given = given or {}
        self.differences: list[Difference] = []

    def run_node(self, n: Node) -> Any:
        """One node: its operation on values, then the comparison. Raises KeyError for an unknown operation."""
        if n.op != "call_function" or n.target is operator.getitem:
            result = super().run_node(n)
        else:
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            result = OPERATIONS[n.target.overloadpacket](Context(_dtype(n), self.profile), *args, **kwargs)
        if n.name not in self.given:
            return result
        self.differences.append(_difference(n, result, self.given[n.name]))
        return self.given[n.name]


def _dtype(n: Node) -> torch.dtype:
    value = n.meta["val"]
    return (value if isinstance(value, Tensor) else value[0]).dtype


def _difference(n: Node, own: Tensor, compiled: Tensor) -> Difference:
    assert own.shape == compiled.shape, f"{n.name}: {tuple(own.shape)} against {tuple(compiled.shape)}"
    if _dtype(n) in HALF:
        steps = int(ulps(own, compiled).max().item()) if own.numel() else 0
    else:
        near = torch.allclose(own.double(), compiled.double(), rtol=1e-6, atol=1e-6, equal_nan=True)
        steps = 0 if near else 1 << 16
    return Difference(n.name, _operation(n), steps, own.numel())


def _operation(n: Node) -> str:
    source = n.args[0] if n.target is operator.getitem else n
    return str(source.target) if isinstance(source, Node) else str(n.target)
