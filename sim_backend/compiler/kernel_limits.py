"""What one kernel of 2025-11 may be (facts 3.3, 3.7): operations, tensors, outputs, inputs of a data operation.

Later profiles bundle without such limits. Each limit is a parameter of the profile, 0 for none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch._inductor.scheduler import BaseSchedulerNode

from sim_backend.compiler.kernel import KernelSource, origins_of
from sim_backend.compiler.rules import NodeRules
from sim_backend.compiler.session import Session
from sim_backend.profiles import Profile


def check_kernel(kernel: KernelSource, session: Session, nodes: Sequence[BaseSchedulerNode]) -> None:
    """Refuse a kernel that is beyond a limit; one with an unimplemented operation is an exception and no kernel."""
    if kernel.unimplemented:
        return
    origins = [o for n in nodes for o in origins_of(n.node)]
    for thing in problems(kernel, session.profile):
        NodeRules(session, origins).refuse("unsupported_op", thing)


def problems(kernel: KernelSource, profile: Profile) -> Iterator[str]:
    """The refused things, in the device's words."""
    operations = [profile.opfunc(name.removeprefix("reduction.")) for name in kernel.ops.elements()]
    operations = [name for name in operations if name != "identity"]
    if 0 < profile.ops_per_kernel < len(operations):
        yield f"multi-op kernel: {' '.join(operations)}"
    arguments = len({*kernel.parameters, *(r for r in kernel.flats if r not in kernel.local)})
    if 0 < profile.arguments_per_kernel < arguments:
        yield f"kernel with {arguments} arguments"
    if profile.outputs_per_kernel:
        yield from _of_outputs(kernel, operations, profile.outputs_per_kernel)


def _of_outputs(kernel: KernelSource, operations: Sequence[str], most: int) -> Iterator[str]:
    """Outputs are what is written and leaves; a data operation (transpose, swap, slice) has one input."""
    written = sorted(root for root in kernel.written if root not in kernel.local)
    inputs = [root for root in dict.fromkeys((*kernel.parameters, *kernel.flats)) if root not in kernel.written]
    if not written:
        yield "kernel with no output"
    if len(written) > most:
        yield f"multi-output kernel {' '.join(written)}"
    if not operations and len(inputs) > 1:
        yield f"data op has {len(inputs)} inputs"


def product_problem(profile: Profile, sizes: tuple[int, int, int], sparse: Sequence[bool]) -> str | None:
    """What 2025-11 refuses of a product of m, n and k: an operand with one element a stick, a loop that is none."""
    if not profile.outputs_per_kernel:
        return None
    if any(sparse):
        return "matmul on non-dense tensors"
    m, n, k = sizes
    ranges: list[Any] = [size for size in (m, n, k) if size != 1]
    return f"matmul range trees {ranges}" if len(ranges) != len(sizes) else None
