"""A bad reference: values that fp16 cannot hold on the CPU although the device can, so that fp16 there says nothing.

The device's 16-bit format reaches beyond 8e9, fp16 ends at 65504. The comparisons of this package use fp32 on the CPU;
a user who compares with a float16 run on the CPU sees infinities that the device does not make.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from agents.types import Failure, FailureKind
from pipeline.diagnosis.wrong_values.blocks import BlockCall, BlockGraph, Untraceable, graph_of
from pipeline.diagnosis.wrong_values.device_runs import only_device_holds
from pipeline.diagnosis.wrong_values.findings import Finding
from pipeline.diagnosis.wrong_values.programs import Operation

FP16_MAX = torch.finfo(torch.float16).max


def overflowing(value: object) -> bool:
    """True for a tensor with values that fp16 cannot hold and the device can."""
    return isinstance(value, torch.Tensor) and only_device_holds(value)


def bad_reference(calls: Sequence[BlockCall], variant: str) -> Finding | None:
    """Where a float16 run on the CPU overflows first; None if it does not."""
    call = next((c for c in calls if overflowing(c.output)), None)
    if call is None:
        return None
    try:
        graph = graph_of(call)
    except Untraceable:
        return None
    found = next((o for o in graph.operations if overflowing(graph.values[o.name])), None)
    return None if found is None else _finding(found, graph, variant)


def _finding(operation: Operation, graph: BlockGraph, variant: str) -> Finding:
    largest = float(graph.values[operation.name].detach().abs().max())
    text = (
        f"values up to {largest:.3g}, float16 ends at {FP16_MAX:.0f}: a float16 run on the CPU overflows and is no "
        "reference, the device's 16-bit format holds them; compare in float32, run in bfloat16 on the host"
    )
    failure = Failure(
        kind=FailureKind.CPU_REFERENCE,
        op=operation.op,
        source=operation.source,
        module=operation.module,
        message=text,
        scalars=operation.scalars(),
        dtype_run="float16",
    )
    return Finding(failure, None, {"largest": largest, "variant": variant})
