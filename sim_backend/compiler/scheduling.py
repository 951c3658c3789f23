"""Turns bundles into kernels: Python source of whole-tensor calls, one function per distinct bundle."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import BackendFeature
from torch._inductor.ir import ReinterpretView
from torch._inductor.scheduler import (
    BaseSchedulerNode,
    BaseScheduling,
    ExternKernelSchedulerNode,
    NopKernelSchedulerNode,
    SchedulerNode,
)
from torch._inductor.utils import sympy_product
from torch._inductor.virtualized import V
from torch.fx import Node
from torch.utils._ordered_set import OrderedSet

from sim_backend.compiler import spans
from sim_backend.compiler.defects import evaluations_of, judge_bundle
from sim_backend.compiler.emit import Emitter
from sim_backend.compiler.ir import NativeCall
from sim_backend.compiler.kernel import KernelSource, buffer_facts, enters, from_start, leaving, origins_of
from sim_backend.compiler.kernel_limits import check_kernel, product_problem
from sim_backend.compiler.origins import origin_of, pick_origin
from sim_backend.compiler.rules import NodeRules
from sim_backend.compiler.session import KernelRecord, Session, current_session
from sim_backend.compiler.sticks import lane_of_view, stick_of
from sim_backend.errata import attention, borders
from sim_backend.errata.rule import Evaluation

_NAME_LIMIT = 60


class SpyreScheduling(BaseScheduling):
    """Inductor's scheduling for the device. Nothing is fused by Inductor; `ir.Bundler` merges adjacent nodes."""

    def get_backend_features(self, device: torch.device) -> OrderedSet[BackendFeature]:
        """None: no scans, sorts, or in-place buffers."""
        return OrderedSet()

    def group_fn(self, sizes: Sequence[Sequence[sympy.Expr]]) -> tuple[Any, ...]:
        """The products of the loop ranges."""
        return tuple(V.graph.sizevars.simplify(sympy_product(s)) for s in sizes)

    def can_fuse_vertical(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
        """Never (facts 4.4)."""
        return False

    def can_fuse_horizontal(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
        """Never (facts 4.4)."""
        return False

    def flush(self) -> None:
        """Nothing is pending between bundles."""

    def ready_to_flush(self) -> bool:
        """Nothing is pending between bundles."""
        return False

    def codegen_sync(self) -> None:
        """Programs complete at once."""

    def benchmark_fused_nodes(self, nodes: Sequence[BaseSchedulerNode]) -> tuple[float, str]:
        """No benchmarking."""
        return 0.0, ""

    def codegen_node(self, node: BaseSchedulerNode) -> None:
        """Write the kernel of a bundle (or of a single node) and its call."""
        session = current_session()
        nodes = [n for n in node.get_nodes() if n.get_name() not in self.scheduler.removed_ops]
        kernel = self._kernel(nodes)
        for member in nodes:
            _emit(kernel, session, member)
        check_kernel(kernel, session, nodes)
        outputs = _mark_outputs(kernel, session, nodes)
        for member in nodes:
            member.mark_run()
        _write_call(kernel, session, nodes, outputs)
        self.free_buffers_in_scheduler()

    def _kernel(self, nodes: Sequence[BaseSchedulerNode]) -> KernelSource:
        names = OrderedSet(n.get_name() for n in nodes)
        made = [b for n in nodes for b in n.get_buffer_names() if b not in self.scheduler.mutation_real_name]
        aliases = {b for b in made if buffer_facts(b).root != b}
        local = {
            b
            for b in made
            if b not in aliases
            and self.scheduler.can_buffer_be_removed_through_fusion(b, names)
            and not any(buffer_facts(a).root == b and not self._inside(a, names) for a in aliases)
        }
        V.graph.removed_buffers.update(local | aliases)
        return KernelSource(frozenset(local), frozenset(b for b in made if b not in aliases and b not in local))

    def _inside(self, name: str, names: OrderedSet[str]) -> bool:
        return bool(self.scheduler.can_buffer_be_removed_through_fusion(name, names))


def _emit(kernel: KernelSource, session: Session, node: BaseSchedulerNode) -> None:
    if isinstance(node, NopKernelSchedulerNode):
        return
    if isinstance(node, SchedulerNode):
        _emit_loops(kernel, session, node)
    else:
        assert isinstance(node, ExternKernelSchedulerNode)
        assert isinstance(node.node, NativeCall)
        _emit_native(kernel, session, node.node)


def _emit_loops(kernel: KernelSource, session: Session, node: SchedulerNode) -> None:
    assert node.node is not None
    rules = NodeRules(session, origins_of(node.node), reduces=node.is_reduction())
    iteration, reduction = node._sizes
    names = [sympy.Symbol(f"x{i}", integer=True, nonnegative=True) for i in range(len(iteration) + len(reduction))]
    emitter = Emitter(kernel, rules, names, [int(n) for n in (*iteration, *reduction)], len(reduction))
    with V.set_ops_handler(emitter):
        node._body(names[: len(iteration)], names[len(iteration) :])
    rules.finish()
    spans.check_loop(kernel, rules, emitter)
    kernel.decisions.restickifies += rules.restickifies
    broadcast = any(_is_stick_reduction(n) for n in rules.reads_broadcast)
    for name in node.get_buffer_names():
        root = buffer_facts(name).root
        pointwise = not node.is_reduction()
        kernel.tags[root] = int(
            pointwise and broadcast and borders.is_broadcast_writer(session.profile, "stick_reduction_reader")
        )


def _is_stick_reduction(name: str) -> bool:
    """True if `name` was made in this graph with one element per row, as a reduction along the stick is."""
    facts = buffer_facts(name)
    made_here = name not in V.graph.graph_inputs and name not in V.graph.constants
    return made_here and len(facts.size) > 1 and facts.size[-1] == 1


def _emit_native(kernel: KernelSource, session: Session, call: NativeCall) -> None:
    rules = NodeRules(session, origins_of(call))
    if not rules.native(str(call.fx_node.target)):
        kernel.unimplemented.append(call.kind)
    nodes = call.operand_nodes()
    checked = call.kind != "wrong"  # the operation that it replaces has checked the same accesses
    operands = [_operand(kernel, rules, x, n, checked) for x, n in zip(call.inputs, nodes, strict=True)]
    if call.kind == "sdpa" and not rules.illegal_sticks:
        head = int(call.inputs[0].get_layout().size[-1])
        if problem := attention.head_multiple_problem(session.profile, head):
            rules.refuse("layout", problem)
    left = call.inputs[0].get_layout()
    if call.kind == "mm" and not session.profile.restickifies and _turned(left.size, left.stride) is not None:
        rules.refuse(
            "layout", "matmul stick dimensions mismatch"
        )  # of the weight, the transposition is the operation's
    if call.kind == "mm":
        _check_product(session, rules, call)
    half = call.get_dtype() in (torch.float16, torch.bfloat16)
    kernel.decisions.restickifies += rules.restickifies
    if checked:
        shapes = [[int(n) for n in x.get_layout().size] for x in call.inputs]
        spans.check_native(kernel, rules, call.kind, shapes, call.get_dtype())
    keywords = "".join(f", {k}={v!r}" for k, v in call.parameters.items())
    facts = buffer_facts(call.get_name())
    kernel.define(facts.root, f"rt.{call.kind}({', '.join(operands)}, half={half}{keywords}).reshape(-1)")
    if call.kind == "wrong":  # no operation of its own: it keeps the layout of what it replaces
        kernel.tags[facts.root] = kernel.tags.get(buffer_facts(call.inputs[0].get_name()).root, 0)
        return
    kernel.ops[call.kind] += 1
    kernel.flop += _flop_of_products(call)
    writer = "layernormnorm" if call.kind == "layer_norm" else call.kind
    kernel.tags[facts.root] = int(borders.is_broadcast_writer(session.profile, writer))


def _check_product(session: Session, rules: NodeRules, call: NativeCall) -> None:
    (*_, m, k), (*_, n) = ([int(s) for s in x.get_layout().size] for x in call.inputs[:2])
    sparse = [buffer_facts(x.get_name()).root in session.sparse for x in call.inputs[:2]]
    if problem := product_problem(session.profile, (m, n, k), sparse):
        rules.refuse("layout", problem)


def _flop_of_products(call: NativeCall) -> int:
    sizes = [[int(n) for n in x.get_layout().size] for x in call.inputs[:2]]
    if call.kind == "mm":
        return 2 * math.prod(sizes[0]) * sizes[1][-1]
    return 4 * math.prod(sizes[0]) * sizes[1][-2] if call.kind == "sdpa" else 0


def _operand(kernel: KernelSource, rules: NodeRules, operand: Any, node: Node | None, checked: bool) -> str:
    layout = operand.get_layout()
    facts = buffer_facts(operand.get_name())
    size, stride = [int(s) for s in layout.size], [int(s) for s in layout.stride]
    offset = int(layout.offset) if isinstance(operand, ReinterpretView) else 0
    eps = stick_of(layout.dtype)
    lane = lane_of_view(size, stride, facts.offset + offset, facts.size, facts.stride, eps)
    if checked:
        rules.access(operand.get_name(), lane, layout.dtype, is_store=False, operand=node)
        if lane.problem is None:
            _align(rules, operand.get_name(), layout.dtype, size, stride)
    region = f"{tuple(size)}, {tuple(stride)}, {facts.offset + offset}"
    if enters(facts.root) and facts.root not in kernel.written and stride != sorted(stride, reverse=True):
        return f"rt.matrix({kernel.parameter(facts.root)}, {facts.row}, {region}{from_start(facts.root)})"
    return f"torch.as_strided({kernel.flat(facts.root)}, {region})"


def _align(rules: NodeRules, name: str, dtype: torch.dtype, size: Sequence[int], stride: Sequence[int]) -> None:
    """Native operations want the sticks of every operand along its last dimension (of a product: k, and n)."""
    along = _turned(size, stride)
    if along is not None and rules.can_restickify(dtype):
        rules.restickify(name, dtype, f"d{along}", f"d{len(size) - 1}")


def _turned(size: Sequence[int], stride: Sequence[int]) -> int | None:
    """The dimension along the sticks if that is not the last one."""
    along = next((d for d, (n, step) in enumerate(zip(size, stride, strict=True)) if n > 1 and step == 1), None)
    return None if along == len(size) - 1 or not size or size[-1] == 1 else along


def _mark_outputs(kernel: KernelSource, session: Session, nodes: Sequence[BaseSchedulerNode]) -> tuple[Evaluation, ...]:
    """E-51 for bool buffers that leave; E-18 tags only on outputs of the graph, each of which was asked about."""
    outputs = leaving()
    asked: list[Evaluation] = []
    for root in list(kernel.produced):
        facts = buffer_facts(root)
        if session.program is not None and root not in outputs:  # it goes on to a region of the same bundle
            kernel.tags.pop(root, None)
            continue
        if root not in outputs or facts.dtype not in (torch.float16, torch.bfloat16):
            kernel.tags.pop(root, None)
        maker = next(n for n in nodes if root in n.get_buffer_names())
        origins = origins_of(maker.node)
        if facts.dtype == torch.bool:
            NodeRules(session, origins).stored_bool(root)
        if root in outputs and facts.dtype in (torch.float16, torch.bfloat16) and session.profile.has("E-18"):
            asked.append(
                _judge_output(session, root, bool(kernel.tags.get(root)) and facts.row > borders.STICK, origins)
            )
    return tuple(asked)


def _judge_output(session: Session, root: str, applies: bool, origins: Iterable[Any]) -> Evaluation:
    """E-18 of the graph output `root`: it is misread by the next graph if it was written in a broadcast layout."""
    origin = origin_of(pick_origin(origins))
    if applies:
        session.trigger("E-18", f"graph output {root} has a broadcast layout", origin)
    return Evaluation("E-18", applies, origin.op, root if applies else "")


def _write_call(
    kernel: KernelSource, session: Session, nodes: Sequence[BaseSchedulerNode], outputs: tuple[Evaluation, ...]
) -> None:
    wrapper = V.graph.wrapper_code
    base = _kernel_name(nodes)
    parameters = ", ".join(kernel.parameters.values())
    body = _body(kernel, base)
    key = f"{base}({parameters}):\n{body}"
    name = wrapper.src_to_kernel.get(key)
    if name is None:
        name = wrapper.src_to_kernel[key] = f"{base}_{len(wrapper.src_to_kernel)}"
        wrapper.header.splice(f"\n\ndef {name}({parameters}):\n{body}".replace("@KERNEL@", name))
    wrapper.writeline(f"{name}({', '.join(kernel.parameters)})")
    origins = [o for n in nodes for o in origins_of(n.node)]
    of_nodes = evaluations_of(session, dict.fromkeys(origins))
    errata = (*of_nodes, *outputs, *_of_bundle(session, name, kernel, len(nodes), origins))
    session.sparse.update(kernel.sparse)
    kernel.note_layouts()
    record = KernelRecord(name, len(nodes), dict(kernel.ops), len(kernel.local), errata, kernel.decisions)
    session.kernels.append(record)


def _of_bundle(
    session: Session, name: str, kernel: KernelSource, nodes: int, origins: Sequence[Any]
) -> list[Evaluation]:
    """The rules on a whole bundle; of a graph with regions the wrapper asks them, for the bundle is the graph."""
    if session.program is None:
        return judge_bundle(session, name, nodes, origins)
    session.program.add(V.graph.name or "", name, nodes, kernel.flop)
    return []


def _body(kernel: KernelSource, base: str) -> str:
    body = kernel.render()
    if kernel.unimplemented:
        return f"    rt.unimplemented('@KERNEL@', {kernel.unimplemented[0]!r})\n"
    return body


def _kernel_name(nodes: Sequence[BaseSchedulerNode]) -> str:
    """ "sdsc_fused_addmm_gelu": the ATen operations in program order."""
    words: dict[str, None] = {}
    for node in nodes:
        origin = pick_origin(origins_of(node.node))
        if origin is not None and (found := re.match(r"\w+\.(\w+)", origin_of(origin).op)):
            words[found.group(1).strip("_")] = None
    return f"sdsc_fused_{'_'.join(words)[:_NAME_LIMIT]}".rstrip("_")
