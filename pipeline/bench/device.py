"""The device stage of the bench: capability reports, of one module as a block or of a small model with its patches."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import nn

from adapters.replay.model import graph_module
from adapters.replay.validate import Examiner
from agents.capture.stock import stock_tensors
from agents.types import Candidate, Failure, canonical
from pipeline.bench.structural import ModelTask, on_meta
from pipeline.bench.tasks import FormTask, dtype_of

LENGTH, BATCH = 40, 2


class Shown(NamedTuple):
    """What a report says: a finding, with the shape of the first tensor it reads."""

    kind: str
    op: str
    place: str
    module: str
    shape: tuple[int, ...]


def device_refuses(module: nn.Module, task: FormTask) -> str:
    """What the device says of a module under the task's condition; "" if it runs it and no known defect meets it.

    An operation that the task names must be gone even where the profile has it: that is what its cause asks.
    """
    from sim_backend import capability

    left = {str(n.target) for n in getattr(getattr(module, "graph", None), "nodes", ())} & set(task.form.refused)
    if left:
        return f"{', '.join(sorted(left))} is still there"
    x = torch.empty(task.shape, dtype=dtype_of(task))
    report = capability(Stack(module), {"x": x}, task.profile, dtype=dtype_of(task), blocks=["layers.0"])
    return "; ".join(f"{f.op}: {f.message or f.kind}" for f in (*report.failures, *report.predicted, *report.fallbacks))


class Stack(nn.Module):
    """One module as the only block of a model."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList([module])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block's value."""
        y: torch.Tensor = self.layers[0](x)
        return y


def model_refused(task: ModelTask, candidate: Candidate) -> str:
    """What the patched model's report still says of the cause; "" if nothing.

    Other causes may stay, or come into sight once this one is gone: a set that cures them all is the gate's matter.
    Library patches only: nothing that was drafted runs here.
    """
    patches = [{"pattern": p.pattern, "parameters": p.parameters} for p in candidate.patches]
    after = reported(task.subject, task.profile, task.dtype, canonical(patches).decode())
    still = [shown for shown in after if is_cause(task.failure, shown)]
    return "; ".join(f"still {s.kind} of {s.op} at {s.module or s.place}" for s in still)


def documents_refused(task: ModelTask, documents: Sequence[dict[str, Any]]) -> str:
    """What the device says of the cause in documents of drafted code; "" if nothing.

    A document has no module paths: the operation must be gone from every block, or from all that the device computes
    outside blocks. It is examined first; none of the code runs.
    """
    examiner = Examiner(stock_tensors(on_meta(task.subject)))
    facts, document = [examiner.examine(one) for one in documents], documents[0]
    op, kind = task.failure.op, str(task.failure.kind)
    if task.failure.place != "block":
        return f"still {op} on the device outside blocks" if any(op in f.outside for f in facts) else ""
    found = (shown for graph in document["graphs"] for shown in _graph_report(graph, task.profile))
    return "; ".join(dict.fromkeys(f"still {s.kind} of {s.op}" for s in found if (s.kind, s.op) == (kind, op)))


def _graph_report(graph: dict[str, Any], profile: str) -> frozenset[Shown]:
    """What the report says of one graph of a document as a block."""
    from sim_backend import capability

    metas = [*graph["inputs"], *graph["parameters"]]
    given = {f"v{n}": torch.empty(m[1], dtype=getattr(torch, m[0]), device="meta") for n, m in enumerate(metas)}
    block = GraphBlock(graph_module(graph, torch.device("cpu")))
    return _shown(capability(block, given, profile, blocks=["layers.0"]))


class GraphBlock(nn.Module):
    """A graph of a document as the only block of a model; its first result is the model's."""

    def __init__(self, graph: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList([graph])

    def forward(self, **values: torch.Tensor) -> torch.Tensor:
        """The block's first result."""
        first: torch.Tensor = self.layers[0](*values.values())[0]
        return first


def is_cause(failure: Failure, shown: Shown) -> bool:
    """Whether a finding is the cause itself: of the same shape where the cause names one."""
    same = (shown.kind, shown.op, shown.place, shown.module) == (
        str(failure.kind), failure.op, failure.place, failure.module,
    )  # fmt: skip
    return same and (not failure.shapes or shown.shape == failure.shapes[0])


@cache
def reported(subject: str, profile: str, dtype: str, patches: str = "[]") -> frozenset[Shown]:
    """What the report says of a subject that runs in `dtype` with `patches` (JSON); without any it is the stock one."""
    given = json.loads(patches)
    if not given:
        return report_of(on_meta(subject), profile, None if dtype == "float32" else getattr(torch, dtype))
    return report_of(adapted(subject, given, dtype), profile)


def report_of(model: nn.Module, profile: str, dtype: torch.dtype | None = None) -> frozenset[Shown]:
    """Failures, known wrong values and fallbacks of a model for two texts, one of them padded."""
    from sim_backend import capability

    ids = torch.ones(BATCH, LENGTH, dtype=torch.int64)
    mask = torch.ones_like(ids)
    mask[1, LENGTH // 2 :] = 0
    found = capability(model, {"input_ids": ids, "attention_mask": mask}, profile, dtype=dtype)
    return _shown(found)


def _shown(found: Any) -> frozenset[Shown]:
    return frozenset(
        Shown(f.kind, f.op, f.place, f.module, f.shapes[0] if f.shapes else ())
        for f in (*found.failures, *found.predicted, *found.fallbacks)
    )


def adapted(subject: str, patches: Sequence[dict[str, Any]], dtype: str) -> nn.Module:
    """The subject without weights, with the patches in canonical order."""
    from adapters import adapt
    from adapters.patches.registry import in_order

    model = copy.deepcopy(on_meta(subject))
    adapt(model, patches=in_order(patches), device="spyre", compile=False, dtype=dtype)
    return model
