"""What an agent's tools reach on the trusted side: capture, test runs, reproducers. They tell sizes, nothing else."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from agents.capture.apply import CODE
from agents.errors import CandidateRefused
from agents.types import Candidate, CandidateTester, Diagnosis
from pipeline.execution.execute import equivalences
from pipeline.execution.models import build_meta
from pipeline.execution.subject import Subject
from pipeline.verification.measurements import Equivalence, EquivalenceResult
from pipeline.verification.seeds import draw_own_seed

WRONG = (EquivalenceResult.NOT_EQUIVALENT, EquivalenceResult.UNKNOWN)
TRIAL_ROWS, TRIAL_LENGTH = 2, 48
"""The inputs of a test run of drafted code: two rows, the second half padding."""


def capture_validated(code: str, target: dict[str, Any]) -> dict[str, Any]:
    """Capture drafted code in the sandbox and validate the document here, where no drafted code was imported.

    The gate's lint of code comes first. Raises CandidateRefused or DocumentRefused.
    """
    from adapters.document import validate
    from agents.sandbox.capture import capture_in_sandbox

    lint(code)
    document = capture_in_sandbox(code, target)
    validate(document)
    return document


def lint(code: str) -> None:
    """The gate's own check of code. Raises CandidateRefused."""
    from pipeline.verification.replay import DocumentRefused, check_code

    try:
        check_code(code)
    except DocumentRefused as refusal:
        raise CandidateRefused(f"the code is refused: {refusal}") from refusal


def candidate_tester(subject: Subject) -> CandidateTester:
    """The drafter's own test: the equivalence of its patches, on points of its own, drawn anew each time.

    Drafted code that changes a model is captured in the sandbox and compared as a document. Told are kind, op and error
    size, nothing else.
    """

    def test(candidate: Candidate, /) -> dict[str, Any]:
        drafted = Subject(**{**subject.__dict__, "candidate": candidate.to_dict()})
        seed = draw_own_seed()
        found = list(equivalences(drafted, build_meta(subject.folder), seed))
        if any(patch.pattern == CODE for patch in candidate.patches):
            found += code_equivalences(subject.folder, candidate, seed)
        for one in found:
            if one.result in WRONG:
                return {"passed": False, "kind": "wrong_values", "op": one.op or one.patch, "error": one.bound}
        return {"passed": True, "kind": None, "op": None, "error": None}

    return test


def code_equivalences(folder: Path, candidate: Candidate, seed: int) -> list[Equivalence]:
    """Each patch and the whole set against stock, from documents captured in the sandbox, on random weights.

    Raises CandidateRefused for code that cannot be captured or whose document breaks a rule.
    """
    from agents.capture.weights import random_stock
    from pipeline.execution.documents import capture_candidate, judge_each, judge_set
    from pipeline.verification.replay import DocumentRefused

    config = json.loads((folder / "config.json").read_text())
    patches, batch = candidate.to_dict()["patches"], _batch(config, seed)
    model = random_stock(config, seed % (1 << 31))
    try:
        captured = capture_candidate(folder, model, patches, candidate.dtype, [batch], seed % (1 << 31))
        return [*judge_each(captured, model, patches, seed % (1 << 31)), judge_set(captured, batch, patches)]
    except DocumentRefused as refusal:
        raise CandidateRefused(f"the captured model is refused: {refusal}") from refusal


def _batch(config: dict[str, Any], seed: int) -> dict[str, torch.Tensor]:
    """Host inputs [TRIAL_ROWS, TRIAL_LENGTH], int64."""
    length = min(TRIAL_LENGTH, int(config.get("max_position_embeddings") or TRIAL_LENGTH))
    generator = torch.Generator().manual_seed(seed % (1 << 31))
    ids = torch.randint(2, int(config["vocab_size"]), (TRIAL_ROWS, length), generator=generator)
    mask = torch.ones_like(ids)
    mask[-1, length // 2 :] = 0
    return {"input_ids": ids, "attention_mask": mask}


def reproducer_runner(profile: str) -> Any:
    """Runs the stored reproducer of the first cause that has one, in a fresh process on the device."""

    def run(diagnoses: Sequence[Diagnosis]) -> dict[str, Any]:
        from pipeline.execution.reproduce import verified

        for diagnosis in diagnoses:
            entry = diagnosis.evidence.get("reproducer") or {}
            if entry.get("script"):
                with tempfile.TemporaryDirectory(prefix="spyre-reproducer-") as folder:
                    seen = verified(entry, Path(folder), "reproducer")
                failure = diagnosis.failure
                if seen["script"] is None:
                    return {"passed": True, "kind": None, "op": failure.op, "error": None}
                size = entry["signature"].get("error")
                return {"passed": False, "kind": failure.kind.value, "op": failure.op, "error": size}
        return {"passed": False, "kind": "no reproducer is stored", "op": None, "error": None}

    return run
