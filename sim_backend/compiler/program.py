"""What the parts of a graph with nested compile regions know of the whole (compiler.regions)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from torch.fx import Graph

BORDERS = "spyre_borders"  # in the `meta` of a body's GraphModule


class Inseparable(Exception):
    """A graph whose regions have to be compiled in their place."""


@dataclass(frozen=True)
class Borders:
    """Of one body: the positions of inputs that another operation of the graph made, and of the graph's outputs."""

    inner: frozenset[int]
    leaving: frozenset[int]


@dataclass
class Program:
    """One graph with regions: its flat form, and what its bodies (by name; "" is the graph itself) add up to."""

    flat: Graph
    kernels: list[str] = field(default_factory=list)
    operations: Counter[str] = field(default_factory=Counter)
    flop: Counter[str] = field(default_factory=Counter)
    calls: list[str] = field(default_factory=list)

    def add(self, body: str, kernel: str, operations: int, flop: int) -> None:
        """Note a kernel of `body`."""
        self.kernels.append(kernel)
        self.operations[body] += operations
        self.flop[body] += flop

    def total(self, counts: Counter[str]) -> int:
        """A count over the whole program: the graph's own, and a body's once for each of its calls."""
        return counts[""] + sum(counts[name] for name in self.calls)
