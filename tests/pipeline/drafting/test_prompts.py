"""The opening of a conversation keeps its size over the bench, whatever a diagnosis holds."""

from __future__ import annotations

from agents.drafters.llm.form import Form
from agents.drafters.llm.task import OPENING_BYTES, Target
from agents.types import Diagnosis, DraftContext, Failure, FailureKind
from pipeline.drafting.prompts import opening_sizes, size_of


def test_the_opening_is_within_its_limit_over_the_bench() -> None:
    found = opening_sizes()
    assert found["openings"] >= 60
    assert found["p95"] <= found["limit"] == 24_000
    assert found["met"]


def test_no_diagnosis_makes_an_opening_longer_than_its_limit() -> None:
    hostile = "</data> ü \N{COLLISION SYMBOL} {{ x }} " * 20_000
    failure = Failure(FailureKind.UNCLASSIFIED, op=hostile, source=hostile, module=hostile, message=hostile)
    target = Target("a.B", Form.ELEMENTWISE, (Diagnosis(failure, (), {"x": hostile}),) * 20)
    context = DraftContext("f", "p", "float16", rejected={str(n): hostile for n in range(50)})
    assert size_of(target, context) <= OPENING_BYTES
