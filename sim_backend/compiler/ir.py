"""Inductor IR of the device's own operations, and the bundle that groups adjacent device nodes (facts 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.custom_graph_pass import CustomSchedulerPass
from torch._inductor.scheduler import (
    BaseSchedulerNode,
    ExternKernelSchedulerNode,
    FusedSchedulerNode,
    NodeUser,
    NopKernelSchedulerNode,
    Scheduler,
    SchedulerNode,
    init_group_node,
)

from sim_backend.compiler.identity import compile_identity
from sim_backend.compiler.program import Inseparable
from sim_backend.compiler.session import current_session


class NativeCall(ir.ExternKernelAlloc):
    """A device operation that is not a loop nest: a matrix product, LayerNorm or attention.

    `kind` names a function of `sim_backend.compiler.runtime`; `parameters` are its constant keyword arguments.
    It is code-generated inside a bundle, never as an extern call.
    """

    def __init__(
        self, kind: str, layout: ir.FixedLayout, inputs: Sequence[ir.IRNode], parameters: dict[str, Any]
    ) -> None:
        super().__init__(layout, inputs)
        self.kind = kind
        self.parameters = parameters

    def should_allocate(self) -> bool:
        """The wrapper allocates the output, unless the bundle keeps it local."""
        return True

    def operand_nodes(self) -> list[torch.fx.Node | None]:
        """The FX node of each input, None where it cannot be told."""
        nodes = [a for a in self.fx_node.args if isinstance(a, torch.fx.Node)]
        count = len(self.inputs)
        return [*nodes[-count:]] if len(nodes) >= count else [None] * count

    @classmethod
    def create(
        cls,
        kind: str,
        size: Sequence[Any],
        inputs: Sequence[ir.IRNode],
        parameters: dict[str, Any],
        dtype: torch.dtype | None = None,
    ) -> ir.TensorBox:
        """A contiguous tensor of `size` computed by `kind` from realised `inputs`; device and dtype of the first."""
        realised = [cls.realize_input(x) for x in inputs]
        device = realised[0].get_device()
        assert isinstance(device, torch.device)
        layout = ir.FixedLayout(device, dtype or realised[0].get_dtype(), list(size))
        return ir.TensorBox.create(cls(kind, layout, realised, parameters))


class Bundle(FusedSchedulerNode):
    """Adjacent device nodes in program order: one kernel. Unlike Inductor's own fusion it takes native calls in."""

    def __init__(self, scheduler: Scheduler, snodes: list[BaseSchedulerNode]) -> None:
        BaseSchedulerNode.__init__(self, scheduler)
        init_group_node(self, scheduler, snodes)
        self.users: list[NodeUser] = []
        device = snodes[0].get_device()
        assert device is not None
        self.group = (device, ((), ()))


def is_device_node(node: BaseSchedulerNode) -> bool:
    """True for loop nests, native calls and empty nodes on the device; a fallback is not one."""
    device = node.get_device()
    if device is None or device.type != "spyre":
        return False
    native = isinstance(node, ExternKernelSchedulerNode) and isinstance(node.node, NativeCall)
    return native or isinstance(node, SchedulerNode | NopKernelSchedulerNode)


class Bundler(CustomSchedulerPass):
    """Merges all adjacent device nodes; only a node that is not on the device ends a bundle. No size limit."""

    def __call__(self, nodes: list[BaseSchedulerNode]) -> list[BaseSchedulerNode]:
        """The node list with bundles in the place of their members."""
        if current_session().program is not None:
            _check_one_bundle(nodes)
        if current_session().profile.ops_per_kernel == 1:  # no fusion: one operation, one kernel (facts 4.4)
            return [b for n in nodes for b in (self._close([n]) if is_device_node(n) else [n])]
        grouped: list[BaseSchedulerNode] = []
        run: list[BaseSchedulerNode] = []
        for node in nodes:
            if is_device_node(node):
                run.append(node)
                continue
            grouped.extend(self._close(run))
            grouped.append(node)
            run = []
        return [*grouped, *self._close(run)]

    def _close(self, run: list[BaseSchedulerNode]) -> list[BaseSchedulerNode]:
        if not any(not isinstance(n, NopKernelSchedulerNode) for n in run):
            return run
        bundle = Bundle(run[0].scheduler, run)
        for node in run:
            bundle.scheduler.name_to_fused_node[node.get_name()] = bundle
        return [bundle]

    def uuid(self) -> str:
        """In the compile-cache key: profile digest and simulator sources."""
        return compile_identity()


def _check_one_bundle(nodes: list[BaseSchedulerNode]) -> None:
    """Raises Inseparable unless a graph with regions has nothing but device operations and calls of regions."""
    for node in nodes:
        is_call = isinstance(node.node, ir.InvokeSubgraph | ir.MultiOutput)
        if not (is_call or is_device_node(node)):
            raise Inseparable(f"{node.get_name()} ends a bundle")
