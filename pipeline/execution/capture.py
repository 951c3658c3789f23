"""Capability of one checkpoint: every failure at once, on fake tensors, in the checkpoint's dtype and in fp16."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import torch

from agents.types import Failure, FailureKind
from pipeline.diagnosis.service import failures_of, predictions_of
from pipeline.errors import CheckpointProblem
from pipeline.execution.device import open_device
from pipeline.execution.embedder import StockEmbedder
from pipeline.execution.models import build_meta
from pipeline.execution.subject import Subject
from pipeline.inspection import Inspection, inspect_checkpoint

LENGTH, BATCH = 40, 2
"""Tokens and rows of the probe: a length that is not a whole number of sticks, and one padded row, so that everything
a user's input can trigger is in the report."""


def probe_inputs(config: Any) -> dict[str, torch.Tensor]:
    """Host inputs of shape [BATCH, LENGTH], int64: ids inside the vocabulary, the second row half padding."""
    vocabulary = config.get_text_config().vocab_size
    ids = torch.arange(BATCH * LENGTH).reshape(BATCH, LENGTH) % max(vocabulary - 3, 1) + 2
    mask = torch.ones(BATCH, LENGTH, dtype=torch.int64)
    mask[1, LENGTH // 2 :] = 0
    inputs = {"input_ids": ids % vocabulary, "attention_mask": mask}
    if getattr(config, "type_vocab_size", 0):
        inputs["token_type_ids"] = torch.zeros(BATCH, LENGTH, dtype=torch.int64)
    return inputs


def dtype_runs(declared: str) -> Iterator[torch.dtype]:
    """The checkpoint's own dtype first, then fp32, in which weights are loaded and adapted; last always fp16, which
    shows what the others hide and what falls back."""
    wide = dict.fromkeys((getattr(torch, declared), torch.float32))
    yield from (dtype for dtype in wide if dtype is not torch.float16)
    yield torch.float16


def stock_reports(subject: Subject, dtypes: Iterable[torch.dtype] | None = None) -> list[dict[str, Any]]:
    """Capability reports of the stock model with its pooling, one per dtype: those given, or all it is asked in."""
    device = open_device(subject.device, subject.profile)
    device.start()
    inspection = inspect_checkpoint(subject.folder)
    reports = []
    for dtype in dtypes or dtype_runs(inspection.dtype or "float32"):
        embedder = stock_embedder(subject, inspection)
        report = device.capability(embedder, probe_inputs(embedder.model.config), dtype=dtype, blocks=None)
        reports.append(report.to_dict())
    return reports


def stock_embedder(subject: Subject, inspection: Inspection) -> StockEmbedder:
    """The stock model on meta with its pooling: what capability reports are of."""
    return StockEmbedder(build_meta(subject.folder), inspection.chain.pooling[0], inspection.chain.normalize)


LONG = 1024
"""Tokens of the long probe, or as many as the model has positions for: windows and chunks show only there."""


def rare_inputs(model: Any) -> dict[str, dict[str, torch.Tensor]]:
    """Host inputs that reach branches which the probe does not: one row without padding, as long as a text may be, and
    one token alone (products of single rows lie otherwise on the device)."""
    length = longest(model)
    alone = {k: _lengthened(v[:1], length) for k, v in probe_inputs(model.config).items()}
    single = {k: v[:1, :1].contiguous() for k, v in alone.items()}
    return {f"one row of {length} tokens without padding": alone, "one token alone": single}


def longest(model: Any) -> int:
    """Tokens of the long probe: LONG, or as many as the model has positions for."""
    from adapters.limits import longest_input

    stated = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return min(int(longest_input(model) or stated or LONG), LONG)


def _lengthened(row: torch.Tensor, length: int) -> torch.Tensor:
    return row.repeat(1, -(-length // row.shape[1]))[:, :length].contiguous()


def rare_reports(subject: Subject) -> list[dict[str, Any]]:
    """Capability reports of the stock model in fp16 for rare kinds of input, each with `only_for`, the kind's name.

    A kind that the model cannot run on the host either (more positions than it has) is left out.
    """
    device = open_device(subject.device, subject.profile)
    embedder = stock_embedder(subject, inspect_checkpoint(subject.folder))
    found = []
    for name, inputs in rare_inputs(embedder.model).items():
        try:
            report = device.capability(embedder, inputs, dtype=torch.float16, blocks=None).to_dict()
        except (IndexError, RuntimeError):
            continue
        found.append({**report, "only_for": name})
    return found


def adapted_report(subject: Subject) -> dict[str, Any]:
    """The capability report of the model with its patches applied, in the dtype they choose.

    Raises CheckpointProblem where the adapter that matches holds sizes that this model does not have.
    """
    import adapters

    device = open_device(subject.device, subject.profile)
    device.start()
    model = build_meta(subject.folder)
    try:
        handle = adapters.adapt(model, patches=subject.patches, device="spyre", compile=False)
    except adapters.PatchDoesNotApply as misfit:
        if subject.adapter is None or subject.candidate is not None:
            raise
        raise CheckpointProblem(FailureKind.ADAPTER_MISFIT, _misfit(subject.adapter, misfit)) from misfit
    with handle:
        report = device.capability(model, probe_inputs(model.config), dtype=None, blocks=None)
    return dict(report.to_dict())


def _misfit(adapter: dict[str, Any], misfit: Exception) -> str:
    """Families leave sizes out, patches that pad do not: the model may be of the family and no adapter's of it."""
    return f"{adapter['name']} ({adapter['family']}) is made for other sizes and does not apply to this model: {misfit}"


DOCUMENTS_ARE_RUN: dict[str, Any] = {
    "outcome": "passed",
    "reason": "",
    "failures": [],
    "predicted": [],
    "fingerprint": None,
    "fallbacks": [],
}
"""OUT of an adapter that is a set of documents: its operators were captured already, execution runs them."""


def is_documents(patches: list[dict[str, Any]] | None) -> bool:
    """Whether an adapter is the documents of drafted code, which have no model that a report could be made of."""
    from adapters.patches.registry import WHOLE

    return any(p["pattern"] == WHOLE for p in patches or ())


def capture(subject: Subject) -> dict[str, Any]:
    """OUT of the capture stage: `passed` if no operation fails, else `failed` with every failure.

    A stock model is reported in its own dtype and in fp16: causes of both count.
    """
    if is_documents(subject.patches):
        return DOCUMENTS_ARE_RUN
    reports = stock_reports(subject) if subject.patches is None else [adapted_report(subject)]
    failures = failures_of(reports)
    return {
        "outcome": "failed" if failures else "passed",
        "reason": summary(failures),
        "failures": [asdict(f) for f in failures],
        "predicted": predictions_of(reports),
        "fingerprint": reports[0]["fingerprint"],
        "fallbacks": [f["op"] for f in reports[-1]["fallbacks"]],
    }


def summary(failures: list[Failure]) -> str:
    """One line for lists: how many causes, and the first."""
    if not failures:
        return ""
    first = failures[0]
    return f"{len(failures)} causes, first: {first.kind} {first.op} at {first.source}"
