"""The source of one kernel: parameters, local buffers, lines. Names go by position, so equal layers share one."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.virtualized import V
from torch.fx import Node

from sim_backend.compiler.decisions import Decisions
from sim_backend.compiler.program import BORDERS
from sim_backend.compiler.session import current_session
from sim_backend.compiler.sticks import row_stride
from sim_backend.layouts import SpyreTensorLayout, is_held


@dataclass(frozen=True)
class BufferFacts:
    """What the kernel needs to know of a buffer: its dtype, size and stride, and where it lies in its root buffer."""

    root: str
    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int = 0

    @property
    def extent(self) -> int:
        """Elements of storage."""
        return 1 + sum((n - 1) * s for n, s in zip(self.size, self.stride, strict=True)) if math.prod(self.size) else 0

    @property
    def row(self) -> int:
        """Elements of one stick row."""
        return row_stride(self.size, self.stride) or self.extent


def buffer_facts(name: str) -> BufferFacts:
    """The facts of the graph's buffer, input or constant `name`."""
    graph = V.graph
    if name in graph.constants:
        constant = graph.constants[name]
        return BufferFacts(name, constant.dtype, tuple(constant.shape), tuple(constant.stride()))
    buffer = graph.try_get_buffer(name)
    assert buffer is not None, name
    layout = buffer.get_output_spec() if isinstance(buffer, ir.Buffer) else buffer.get_layout()
    if isinstance(layout, ir.NonOwningLayout):
        view = layout.view.get_layout()
        base = buffer_facts(layout.view.get_name())
        return BufferFacts(
            base.root, layout.dtype, _ints(layout.size), _ints(layout.stride), base.offset + _int(view.offset)
        )
    if isinstance(layout, ir.MutationLayoutSHOULDREMOVE):
        return buffer_facts(layout.get_buffer().get_name())
    layout = buffer.get_layout()
    return BufferFacts(name, layout.dtype, _ints(layout.size), _ints(layout.stride))


def _ints(values: Any) -> tuple[int, ...]:
    return tuple(_int(v) for v in values)


def _int(value: Any) -> int:
    return int(value)


def _layout(facts: BufferFacts, is_sparse: bool) -> SpyreTensorLayout:
    """Memory order decides which dimension lies along the sticks: the one that moves fastest."""
    if is_sparse:
        kept = facts.size[:-1] if facts.size and facts.size[-1] == 1 else facts.size
        return SpyreTensorLayout.sparse(kept, facts.dtype)
    order = sorted(range(len(facts.size)), key=lambda d: -facts.stride[d])
    return SpyreTensorLayout.of(facts.size, facts.dtype, facts.stride, order or None)


@dataclass
class KernelSource:
    """A kernel under construction. `local` are roots that never leave it, `produced` those it makes for others."""

    local: frozenset[str]
    produced: frozenset[str]
    lines: list[str] = field(default_factory=list)
    ops: Counter[str] = field(default_factory=Counter)
    parameters: dict[str, str] = field(default_factory=dict)
    flats: dict[str, str] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    versions: Counter[str] = field(default_factory=Counter)
    unimplemented: list[str] = field(default_factory=list)
    sparse: set[str] = field(default_factory=set)  # roots with one element per stick: reductions along it
    decisions: Decisions = field(default_factory=Decisions)
    flop: int = 0  # of its matrix products
    _expressions: dict[str, str] = field(default_factory=dict)
    _count: int = 0

    def temporary(self, expression: str, *, shared: bool = True) -> str:
        """The name of a temporary that holds `expression`; equal expressions share one."""
        if shared and expression in self._expressions:
            return self._expressions[expression]
        name = f"t{self._count}"
        self._count += 1
        self.lines.append(f"{name} = {expression}")
        if shared:
            self._expressions[expression] = name
        return name

    def flat(self, root: str) -> str:
        """The variable with the flat values of `root`: read at the kernel's entry, or made here."""
        if root not in self.flats:
            name = self._name(root)
            if root in self.local or root in self.produced:
                whole = buffer_facts(root)
                self.lines.append(f"{name} = rt.new({whole.extent}, {whole.dtype})")
        return self.flats[root]

    def picked(self, root: str, where: str) -> str:
        """The elements of `root` at `where`; of a graph input that is not read whole, only those are decoded."""
        if root in self.flats or not enters(root):
            return f"{self.flat(root)}[{where}]"
        return f"rt.pick({self.parameter(root)}, {where}, {buffer_facts(root).row}{from_start(root)})"

    def parameter(self, root: str) -> str:
        """The parameter that stands for the buffer `root` itself."""
        return self.parameters.setdefault(root, f"p{len(self.parameters)}")

    def define(self, root: str, expression: str) -> None:
        """The whole buffer `root` gets the flat value of `expression`."""
        name = self._name(root)
        self.lines.append(f"{name} = {expression}")
        self.touch(root)

    def touch(self, root: str) -> None:
        """`root` has been written: earlier reads of it must not be reused."""
        self.versions[root] += 1
        self.written.add(root)

    def note_layouts(self) -> None:
        """Write the layout of every buffer of the kernel down in its decisions."""
        for root in dict.fromkeys((*self.parameters, *self.flats)):
            facts = buffer_facts(root)
            if is_held(facts.dtype):
                required = current_session().required_layouts.get(root)
                self.decisions.layouts[root] = required or _layout(facts, root in self.sparse)

    def _name(self, root: str) -> str:
        if root not in self.flats:
            self.flats[root] = f"f{len(self.flats)}"
            if root not in self.local:
                self.parameter(root)
        return self.flats[root]

    def render(self) -> str:
        """The body: entry reads, lines, stores of what leaves the kernel, then the simulated time of its launch.

        A graph with nested regions is one launch, which its wrapper writes.
        """
        entry = [self._read(root) for root in self.parameters if root in self.flats and root not in self.produced]
        stores = [self._write(root) for root in self.parameters if root in self.written]
        launch = [self._launch()] if current_session().program is None else []
        return "".join(f"    {line}\n" for line in [*entry, *self.lines, *stores, *launch])

    def _launch(self) -> str:
        buffers = [buffer_facts(root) for root in self.parameters]
        return f"rt.launch({sum(b.extent * b.dtype.itemsize for b in buffers)}, {self.flop})"

    def _read(self, root: str) -> str:
        width = f", {buffer_facts(root).row}" if enters(root) else ""
        copy = ".clone()" if root in self.written else ""
        return f"{self.flats[root]} = rt.read({self.parameters[root]}{width}{from_start(root)}){copy}"

    def _write(self, root: str) -> str:
        tag = f", {self.tags[root]}" if self.tags.get(root) else ""
        return f"rt.write({self.parameters[root]}, {self.flats[root]}{tag}{from_start(root)})"


def from_start(root: str) -> str:
    """The argument by which a graph input is taken from the start of its storage, as E-31 has it, or ""."""
    return ", start=True" if enters(root) and current_session().profile.has("E-31") else ""


def enters(root: str) -> bool:
    """True for an input of the graph; of a nested region, for one that no other operation of the graph has made."""
    inputs = V.graph.graph_inputs
    if root not in inputs:
        return False
    borders = V.graph.module.meta.get(BORDERS)
    return borders is None or list(inputs).index(root) not in borders.inner


def origins_of(operation: Any) -> list[Node]:
    """The FX nodes that `operation` comes from; in a nested region without those of the graph around it."""
    origins = [] if operation is None else list(operation.get_origins())
    inside = V.graph.module.graph if BORDERS in V.graph.module.meta else None
    return [o for o in origins if inside is None or o.graph is inside]


def leaving() -> set[str]:
    """The buffers that leave the graph as its outputs; of a nested region, those that leave the graph around it."""
    names = V.graph.get_output_names()
    borders = V.graph.module.meta.get(BORDERS)
    return {name for i, name in enumerate(names) if borders is None or i in borders.leaving}
