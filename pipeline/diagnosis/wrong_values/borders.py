"""The border of two compiled graphs: what the second reads of the first one's output where it lies on the device."""

from __future__ import annotations

import torch

from pipeline.diagnosis.wrong_values.blocks import BlockGraph
from pipeline.diagnosis.wrong_values.compare import Difference, difference
from pipeline.diagnosis.wrong_values.device_runs import REFUSED, Refused, fetch
from pipeline.diagnosis.wrong_values.programs import Program

LONGEST_GIVER = 4
"""Operations at the end of a block that are tried as the graph that hands over."""


def reads(x: torch.Tensor) -> torch.Tensor:
    """The graph that reads: the least a graph can do."""
    return x + 1.0


def reading(program: Program) -> Difference:
    """What a second graph reads of the program's output on the device, against what it reads of a fresh copy of it.

    Raises Refused.
    """
    torch._dynamo.reset()
    first = torch.compile(program.function(program.run_dtype, "spyre"), fullgraph=True, dynamic=False)
    second = torch.compile(reads, fullgraph=True, dynamic=False)
    try:
        with torch.no_grad():
            handed = first(*[i.on_device() for i in program.inputs])
            direct, fresh = fetch(second(handed)), fetch(second(handed.cpu().to(handed.device)))
    except REFUSED as error:
        raise Refused(error) from error
    return difference(direct, fresh, [fresh])


def smallest_giver(graph: BlockGraph) -> Program | None:
    """The shortest end of a block whose output a second graph reads wrongly; None if no short one is."""
    size = len(graph.operations)
    for length in range(1, LONGEST_GIVER + 1):
        program = graph.segment(size - length, size)
        if program is None or len(program.outputs) != 1:
            continue
        try:
            if reading(program).wrong:
                return program
        except Refused:
            continue
    return None
