"""The cost of single operations in nanoseconds, from the table in `costs.yaml`. It needs no torch and no profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

TABLE = Path(__file__).with_name("costs.yaml")


@dataclass(frozen=True)
class Costs:
    """Costs by the constants of one table. Sizes are in elements of the table's item size."""

    table: Mapping[str, Any]

    def op_ns(self, op: str, elements: int, operands: int = 1, row: int = 1) -> float:
        """One ATen operation ("aten.mul.Tensor") that makes `elements` from `operands` tensors of that size.

        `row` is how many elements one reduced value is made of, or the inner size of a matrix product.
        T = max(T_compute, T_mem) of facts 7.2.
        """
        name = op.removeprefix("aten.").partition(".")[0]
        if name in self.table["views"]:
            return 0.0
        if name in self.table["composites"]:
            return self._composite_ns(name, elements, row)
        if name in self.table["reductions"]:
            return max(self.reduction_ns(elements * row), self.memory_ns(elements * row, elements))
        if name in self.table["matmuls"]:
            return max(self.matmul_ns(elements, row), self.memory_ns(elements * operands, elements))
        return max(self.pointwise_ns(name, elements), self.memory_ns(elements * operands, elements))

    def pointwise_ns(self, name: str, elements: int) -> float:
        """Time in the vector units; transcendentals count several times (facts 7.4)."""
        weight = self.table["transcendental"] if name in self.table["transcendentals"] else 1.0
        return float(elements * weight * 1e3 / (self.table["pointwise_per_us_per_core"] * self.table["cores"]))

    def reduction_ns(self, elements: int) -> float:
        """Time to add up or compare `elements` values (facts 7.3)."""
        return float(elements * 1e3 / (self.table["reduction_per_us_per_core"] * self.table["cores"]))

    def matmul_ns(self, elements: int, inner: int, rows: int | None = None) -> float:
        """Multiply-accumulates of a product with `elements` results; fewer `rows` than fill the array cost more."""
        full = self.table["underfilled_rows"]
        filled = min(1.0, ((rows or full * self.table["cores"]) / self.table["cores"] / full)) or 1.0
        efficiency = filled ** self.table["underfilled_power"]
        return float(elements * inner / self.table["cores"] / (self.table["mac_per_ns_per_core"] * efficiency))

    def memory_ns(self, read: int, written: int) -> float:
        """(R + W) / bandwidth + turnaround * min(R, W), facts 7.2."""
        size = self.table["itemsize"]
        turned = self.table["turnaround_ns_per_byte"] * min(read, written) * size
        return float((read + written) * size / self.table["memory_gb_per_s"] + turned)

    def _composite_ns(self, name: str, elements: int, row: int) -> float:
        reductions, transcendentals, plain = self.table["composites"][name]
        one = max(self.reduction_ns(elements), self.memory_ns(elements, max(1, elements // max(1, row))))
        slow = max(self.pointwise_ns("exp", elements), self.memory_ns(elements, elements))
        quick = max(self.pointwise_ns("mul", elements), self.memory_ns(2 * elements, elements))
        return float(reductions * one + transcendentals * slow + plain * quick)


@cache
def load_costs() -> Costs:
    """The costs of the table that ships with the simulator."""
    return Costs(yaml.safe_load(TABLE.read_text(encoding="utf-8")))
