"""The lengths of a release are those of cases that counted."""

from __future__ import annotations

from datetime import date

import torch

from pipeline.execution.release_parts import counted_lengths
from pipeline.verification.probes import ProbeBatch
from pipeline.verification.verdict import CaseVerdict, Outcome, Tier, Verdict


def probe(name: str, length: int) -> ProbeBatch:
    return ProbeBatch(name, 0, "right", "case", {"input_ids": torch.zeros(1, length, dtype=torch.long)}, (length,))


def test_a_void_case_verifies_no_length() -> None:
    said = {"mixed-device": Outcome.PASSED, "longest-device": Outcome.VOID, "longest-cpu": Outcome.PASSED}
    cases = tuple(CaseVerdict(name, outcome) for name, outcome in said.items())
    verdict = Verdict(Outcome.PASSED, cases, (), Tier.FULL, "gate", "0", date(2026, 1, 1))
    assert counted_lengths([probe("mixed", 65), probe("longest", 512)], verdict) == [65]
