"""A candidate as documents: captured where its code may run, validated here, compared with stock, bound to its code.

Everything the verdict rests on runs from these documents. Drafted code is captured in the sandbox, library patches in
a child of ours; the evidence says which.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from adapters.limits import longest_input
from adapters.replay.documents import DocumentSet, cases_for
from agents.capture.apply import CODE
from agents.capture.case import Case, cases_of
from agents.capture.model import capture_stock
from agents.capture.stock import stock_tensors
from agents.errors import SandboxUnavailable
from agents.sandbox.capture_model import capture_model_in_sandbox, run_model_in_sandbox
from pipeline.errors import EnvironmentProblem
from pipeline.execution.beside import Done, Meanwhile, beside, nothing
from pipeline.execution.capture_child import capture_in_child
from pipeline.verification.equivalence import judge_patches, reach_of, subject_of
from pipeline.verification.measurements import Equivalence, EquivalenceResult
from pipeline.verification.parts import pad_id
from pipeline.verification.policy import current_policy
from pipeline.verification.replay import (
    Constants,
    DocumentRefused,
    Examiner,
    Facts,
    ModelReplay,
    Precision,
    check_binding,
    check_case,
    check_code,
    left_out,
    same_structure,
    strange_uses_of_tokens,
)
from pipeline.verification.replay.binding import same_bits
from pipeline.work.forked import Standby

Batch = Mapping[str, Tensor]
SANDBOX, CHILD = "sandbox", "a child of ours (library patches only)"


@dataclass(frozen=True)
class Captured:
    """The validated documents of a candidate, one per case, and of stock for the first and the telling one.

    Drafted code is captured for the cases that it would be released with (`is_set`), and every batch is run as the
    released adapter runs it; library patches for the cases of the batches.

    `where` it was captured, `bound` how code and document were compared; fp64 constants are made once for all judges.
    """

    config: dict[str, Any]
    cases: list[Case]
    documents: list[dict[str, Any]]
    facts: list[Facts]
    stock: dict[str, Any]
    telling: int
    telling_stock: dict[str, Any]
    tensors: dict[str, Tensor]
    where: str
    bound: str
    pad_id: int = 0
    is_set: bool = False
    constants: Constants = field(default_factory=Constants)

    def document_for(self, batch: Batch) -> dict[str, Any]:
        """The document of the batch's case."""
        return self.documents[self.number_for(batch)]

    def number_for(self, batch: Batch) -> int:
        """The number of the batch's case."""
        (case,) = cases_of([dict(batch)], self.cases[0].dtype)
        return self.cases.index(case)

    def notes(self) -> dict[str, Any]:
        """What evidence says about the documents."""
        entries = [
            {"batch": c.batch, "length": c.length, "dtype": c.dtype, **f.to_dict()}
            for c, f in zip(self.cases, self.facts, strict=True)
        ]
        return {"captured_in": self.where, "bound_by": self.bound, "documents": entries}


def capture_candidate(
    folder: Path,
    model: Any,
    patches: Sequence[Mapping[str, Any]],
    dtype: str,
    batches: Sequence[Batch],
    seed: int,
    meanwhile: Meanwhile = nothing,
    standby: Standby | None = None,
) -> Captured:
    """Captures the patched model for every case of the batches, and proves what can be proved before it runs.

    In this order: lint of code, capture, validation, one structure, no weight left out, token ids only looked up, code
    bound to document.
    `seed` is for the binding of code, `meanwhile` is done while the candidate is captured elsewhere, `standby` may be a
    child that waits to do it where nothing of the candidate is drafted code.
    Raises CandidateRefused or DocumentRefused with the reason, EnvironmentProblem
    for drafted code without a sandbox.
    """
    plain = _plain(patches)
    for patch in plain:
        if patch["pattern"] == CODE:
            check_code(patch["parameters"]["source"])
    config = json.loads((folder / "config.json").read_text())
    is_set = _has_code(plain)
    cases = released_cases(model, batches, dtype) if is_set else cases_of([dict(b) for b in batches], dtype)
    telling, stocks = telling_case(cases, reach_of(model.config)), dict[int, dict[str, Any]]()

    def capture_stock_first(done: Done) -> None:
        wanted = list(dict.fromkeys((0, telling)))
        found = capture_stock(config, [replace(cases[n], dtype="float32") for n in wanted])
        stocks.update(zip(wanted, found, strict=True))
        meanwhile(done)

    captured_elsewhere = partial(_captured, config, plain, cases, standby)
    documents, where = beside(captured_elsewhere, capture_stock_first)
    tensors = stock_tensors(model)
    examiner = Examiner(tensors)
    facts = [_examined(d, c, examiner) for d, c in zip(documents, cases, strict=True)]
    same_structure(documents)
    for document in stocks.values():
        examiner.examine(document, placed=False)
    stock = stocks[0]
    if missing := left_out(stock, documents[0]):
        raise DocumentRefused(f"the patched model leaves out {len(missing)} weights, such as {min(missing)!r}")
    if strange := strange_uses_of_tokens(stock, documents[0]):
        raise DocumentRefused(f"token ids become {', '.join(sorted(strange))}, which the stock model does not do")
    captured = Captured(
        config,
        cases,
        documents,
        facts,
        stock,
        telling,
        stocks[telling],
        tensors,
        where,
        "",
        pad_id(model.config),
        is_set,
    )
    bound = _bind(captured, config, model, plain, batches[0], seed if is_set else None)
    return replace(captured, bound=bound)


def released_cases(model: Any, batches: Sequence[Batch], dtype: str) -> list[Case]:
    """The cases that an adapter of drafted code has documents for, up to the longest of the batches."""
    longest = max(b["input_ids"].shape[1] for b in batches)
    return [Case(*shape, dtype, tuple(batches[0])) for shape in cases_for(longest, longest_input(model))]


def _plain(patches: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"pattern": p["pattern"], "parameters": p["parameters"]} for p in patches]


def _has_code(patches: Sequence[Mapping[str, Any]]) -> bool:
    return any(p["pattern"] == CODE for p in patches)


def _captured(
    config: dict[str, Any], patches: list[dict[str, Any]], cases: list[Case], standby: Standby | None = None
) -> tuple[list[dict[str, Any]], str]:
    if not _has_code(patches):
        return capture_in_child(config, patches, cases, standby), CHILD
    try:
        return capture_model_in_sandbox(config, patches, cases), SANDBOX
    except SandboxUnavailable as problem:
        raise EnvironmentProblem(f"drafted code is verified in the sandbox only: {problem}") from problem


def _examined(document: dict[str, Any], case: Case, examiner: Examiner) -> Facts:
    facts = examiner.examine(document)
    check_case(document, case.batch, case.length, case.dtype)
    if [entry["name"] for entry in document["inputs"]] != list(case.inputs):
        raise DocumentRefused("the document does not take the inputs of the case")
    return facts


def _bind(
    captured: Captured,
    config: dict[str, Any],
    model: Any,
    patches: list[dict[str, Any]],
    batch: Batch,
    seed: int | None,
) -> str:
    """Code is run in the sandbox on drawn weights; library patches are applied here, as users apply them."""
    if seed is not None:
        check_binding(config, patches, captured.documents[0], run_model_in_sandbox, seed)
        return "patched code run in the sandbox on drawn weights and inputs, bit for bit"
    import adapters

    dtype = captured.cases[0].dtype
    with (
        adapters.adapt(model, patches=patches, device="cpu", dtype=getattr(torch, dtype), compile=False),
        torch.no_grad(),
    ):
        expected = model(**batch).last_hidden_state
    if not same_bits(ModelReplay(captured.document_for(batch), captured.tensors).run(batch), expected):
        raise DocumentRefused("the patches, applied as users apply them, do something else than the document")
    return "patches applied on the CPU as users apply them, bit for bit"


def cpu_outputs(captured: Captured, batches: Sequence[Batch]) -> list[Tensor]:
    """The candidate on the CPU in fp32, from its documents: [batch, length, width] each."""
    if captured.is_set:
        whole = DocumentSet(captured.documents, captured.tensors, Precision.FP32, captured.pad_id)
        return [whole.run(b) for b in batches]
    shared = Constants()
    return [
        ModelReplay(captured.document_for(b), captured.tensors, Precision.FP32, constants=shared).run(b)
        for b in batches
    ]


def judge_each(
    captured: Captured, model: Any, patches: Sequence[Mapping[str, Any]], seed: int
) -> tuple[Equivalence, ...]:
    """One answer per patch of structure or code, from the documents of the case that tells most at least cost.

    The set is judged first; prefixes are captured only if it is not exact. Patches with a document of their own (P01)
    are judged by that. `seed` is hidden.
    """
    case = captured.cases[captured.telling]

    def prefix(count: int) -> dict[str, Any]:
        part = _plain(patches[:count])
        (document,), _ = _captured(captured.config, part, [case])
        _examined(document, case, Examiner(captured.tensors))
        return document

    pairs = [(captured.telling_stock, captured.documents[captured.telling])]
    return judge_patches(patches, pairs, subject_of(model, seed, captured.constants), model.config, prefix)


def telling_case(cases: Sequence[Case], reach: int | None) -> int:
    """The number of the smallest case with several texts that are longer than the window; else the nearest to that."""

    def rank(number: int) -> tuple[bool, bool, int]:
        case = cases[number]
        too_short = reach is not None and case.length <= reach + 1
        return too_short, case.batch < 2, -case.length if too_short else case.batch * case.length

    return min(range(len(cases)), key=rank)


def judge_set(captured: Captured, batch: Batch, patches: Sequence[Mapping[str, Any]]) -> Equivalence:
    """Whether the whole set is stock's mathematics: both documents in fp64 on a batch, brought to the first case.

    Bounded patches may add up to their bounds; the cast (P56) has no part in it, fp64 takes it away.
    """
    batch = in_case(batch, captured.cases[0], captured.pad_id)
    difference = difference_in_fp64(captured, batch)
    bounds = [p.get("bound") or 0.0 for p in patches if p.get("exactness") == "bounded" and p["pattern"] != "P56"]
    limit = current_policy().mathematics["set_relative"]
    claimed = sum(bounds) if bounds else None
    exact = difference <= limit
    within = claimed is not None and difference <= claimed
    result = EquivalenceResult.EXACT if exact else EquivalenceResult.BOUNDED if within else None
    return Equivalence(
        patch="the whole set",
        claim="bounded" if bounds else "exact",
        result=result or EquivalenceResult.NOT_EQUIVALENT,
        method="patched and stock document replayed in fp64",
        points=int(batch["attention_mask"].sum()),
        bound=difference,
        claimed_bound=claimed,
        input_that_shows_it="" if result else "the first hidden batch",
        detail=f"the documents differ by {difference:.2g} of the largest value in fp64",
    )


def in_case(batch: Batch, case: Case, pad: int) -> Batch:
    """The batch cut, padded on the right and filled up with its first row to the case; itself if it is of the case."""
    if batch["input_ids"].shape == (case.batch, case.length):
        return batch
    made = {}
    for name, tensor in batch.items():
        kept = tensor[: case.batch, : case.length]
        wide = F.pad(kept, (0, case.length - kept.shape[1]), value=pad if name == "input_ids" else 0)
        made[name] = torch.cat([wide, wide[:1].expand(case.batch - len(wide), -1)])
    return made


def difference_in_fp64(captured: Captured, batch: Batch) -> float:
    """The largest difference of patched and stock document in fp64 over real tokens, relative to stock's largest
    value. `batch` is of the first case."""
    outputs = [
        ModelReplay(d, captured.tensors, Precision.FP64, constants=captured.constants).run(batch)
        for d in (captured.stock, captured.documents[0])
    ]
    stock, patched = (o[batch["attention_mask"].bool()] for o in outputs)
    return float((patched - stock).abs().max() / stock.abs().max())
