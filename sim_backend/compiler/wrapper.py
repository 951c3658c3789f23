"""The wrapper of generated modules: imports our runtime, replays the audit on load, runs fallbacks on the CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen
from torch.fx import Graph

from sim_backend.compiler.defects import judge_bundle, operand_of
from sim_backend.compiler.origins import origin_of
from sim_backend.compiler.program import Inseparable, Program
from sim_backend.compiler.session import Refusal, Session, current_session
from sim_backend.device.parts import WORKING
from sim_backend.errata.rule import Evaluation, Operand


class SpyreWrapperCodegen(PythonWrapperCodegen):
    """Inductor's Python wrapper with our runtime as `rt`."""

    @staticmethod
    def create(
        is_subgraph: bool, subgraph_name: str | None, parent_wrapper: Any, partition_signatures: Any = None
    ) -> PythonWrapperCodegen:
        """The wrapper of a graph, or Inductor's of a subgraph."""
        if is_subgraph:
            assert subgraph_name is not None
            return SubgraphPythonWrapperCodegen(subgraph_name, parent_wrapper, partition_signatures)
        return SpyreWrapperCodegen()

    def write_header(self) -> None:
        """Imports; the audit follows in `generate`."""
        super().write_header()
        self.imports.splice(
            "import torch\n"
            "from sim_backend.compiler import runtime as rt\n"
            "from sim_backend.errata.rule import Call, Operand\n"
        )

    def generate_fallback_kernel(self, node: ir.FallbackKernel) -> None:
        """An operation on the CPU between two kernels, counted at every call."""
        kernel = node.python_kernel_name
        if kernel and not kernel.startswith("rt.") and _touches_device(node):
            node.python_kernel_name = f"rt.{self._way_of(node)}({kernel})"
        super().generate_fallback_kernel(node)

    def _way_of(self, node: ir.FallbackKernel) -> str:
        """ "fallback" for what runs on the CPU, "compute" for what the op table says the device (or the host) has.

        "missing" is compiled to an exception.

        An operation of neither kind is refused: it would run on the CPU in silence.
        """
        session, name, origin = current_session(), str(node.op_overload), origin_of(node.fx_node)
        profile = session.profile
        cells = (profile.cell(name, "compiled"), profile.cell(origin.op, "compiled"))
        if "F" in cells or (node.fx_node is not None and node.fx_node.meta.get("should_fallback")):
            session.fallbacks.append(origin)
            return "fallback"
        if "U" in cells and not profile.ideal:
            session.unimplemented.append(name.split(".")[1])
            return "missing"
        if not profile.ideal and cells[0] not in WORKING:
            session.refuse(Refusal("unsupported_op", name, origin))
        return "compute"

    def codegen_subgraph_call(self, subgraph: Any, outer_inputs: Any, outer_buffer_name: Any) -> None:
        """Inductor's call of a region, counted."""
        program = current_session().program
        if program is None:
            raise Inseparable("a subgraph that is no region")
        program.calls.append(subgraph.graph.name)
        super().codegen_subgraph_call(subgraph, outer_inputs, outer_buffer_name)

    def generate(self, is_inference: bool) -> Any:
        """The module's source. Its audit is registered when the module is loaded, cache hit or not."""
        session = current_session()
        asked = [] if session.program is None else self._finish(session, session.program)
        record = {
            "profile": session.profile.name,
            "profile_digest": session.profile.digest,
            "kernels": [k.to_dict() for k in session.kernels],
            "triggers": [[t.erratum, t.detail, t.origin.op, t.origin.source] for t in session.triggers],
            "fallbacks": [o.op for o in session.fallbacks],
            "unimplemented": session.unimplemented,
            "errata": [e.to_dict() for e in (*asked, *session.take_evaluations(list(session.evaluations)))],
        }
        self.header.splice(f"\nrt.register_audit({record!r})\n")
        return super().generate(is_inference)

    def _finish(self, session: Session, program: Program) -> list[Evaluation]:
        """A graph with regions is one bundle: its launch is written, and it is asked for its length (E-55)."""
        self.writeline(f"rt.launch({_bytes_moved(program.flat)}, {program.total(program.flop)})")
        nodes = [n for n in program.flat.nodes if n.op == "call_function"]
        return judge_bundle(session, program.kernels[0], program.total(program.operations), nodes)


def _bytes_moved(flat: Graph) -> int:
    """Of the graph's inputs that are read, and of its outputs."""
    *_, output = flat.nodes
    moved = [n for n in flat.nodes if n.op in ("placeholder", "get_attr") and n.users]
    values = [n.meta.get("val") for n in dict.fromkeys([*moved, *output.all_input_nodes])]
    operands = [operand_of(v, True) for v in values if isinstance(v, torch.Tensor)]
    return sum(_extent(o) * o.dtype.itemsize for o in operands)


def _extent(operand: Operand) -> int:
    return 1 + sum((n - 1) * s for n, s in zip(operand.shape, operand.stride, strict=True))


def _touches_device(node: ir.FallbackKernel) -> bool:
    devices = [x.get_device() for x in node.inputs if isinstance(x, ir.IRNode)] + [node.get_device()]
    return any(d is not None and d.type == "spyre" for d in devices)
