"""Evidence: bound to its candidate, tamper-evident, and enough to give the verdict again."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from pipeline.verification.evidence import EvidenceChanged, check_evidence, evidence_digest, evidence_document
from pipeline.verification.gate import judge
from pipeline.verification.measurements import Measurements
from pipeline.verification.seeds import HiddenSeeds

CANDIDATE = "cd" * 32


@pytest.fixture
def document(good_set: Callable[..., Measurements]) -> dict[str, Any]:
    return make(good_set())


def make(measurements: Measurements, seeds: HiddenSeeds | None = None) -> dict[str, Any]:
    return evidence_document(
        candidate=CANDIDATE,
        checkpoint={"model": "org/m", "revision": "0" * 40, "pooling": "mean"},
        environment={"torch": "2.13.0"},
        seeds=seeds or HiddenSeeds(CANDIDATE, (1, 2)),
        recipe={"recipe": "calibrated-1", "seed": 0},
        measurements=measurements,
        verdict=judge(measurements, "full"),
    )


def test_evidence_survives_storage(document: dict[str, Any]) -> None:
    stored = json.loads(json.dumps(document, allow_nan=False))
    check_evidence(stored)
    assert stored["seeds"] == [1, 2]
    assert stored["verdict"]["outcome"] == "passed"


def test_a_changed_figure_is_noticed(document: dict[str, Any]) -> None:
    document["measurements"]["cases"][0]["lowest_token_cosine"] = 0.5
    with pytest.raises(EvidenceChanged, match="does not match its digest"):
        check_evidence(document)


def test_a_verdict_that_does_not_follow_is_noticed(good_set: Callable[..., Measurements]) -> None:
    document = copy.deepcopy(make(good_set(cases=())))
    document["verdict"]["outcome"] = "passed"
    document["digest"] = evidence_digest(document)
    with pytest.raises(EvidenceChanged, match="the gate says unknown"):
        check_evidence(document)


def test_another_gate_version_is_checked_by_digest_only(document: dict[str, Any]) -> None:
    document["gate"], document["verdict"]["outcome"] = "gate-0", "failed"
    document["digest"] = evidence_digest(document)
    check_evidence(document)


def test_seeds_of_another_candidate_are_refused(good_set: Callable[..., Measurements]) -> None:
    with pytest.raises(ValueError, match="seeds were drawn for"):
        make(good_set(), HiddenSeeds("ef" * 32, (1,)))
