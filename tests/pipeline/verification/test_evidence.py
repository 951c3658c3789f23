"""Evidence: bound to its candidate, tamper-evident, and enough to give the verdict again."""

from __future__ import annotations

import copy
import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from pipeline.verification.evidence import (
    LARGEST_DOCUMENT,
    EvidenceChanged,
    check_evidence,
    evidence_digest,
    evidence_document,
    pack_evidence,
    summary_of,
    unpack_evidence,
)
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
    assert stored["seeds"]["seeds"] == [1, 2]
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


def test_a_verdict_without_its_case_reasons_is_noticed(good_set: Callable[..., Measurements]) -> None:
    document = copy.deepcopy(make(good_set()))
    document["verdict"]["document"]["cases"][0]["outcome"] = "unknown"
    document["digest"] = evidence_digest(document)
    with pytest.raises(EvidenceChanged, match="the gate says passed"):
        check_evidence(document)


def test_evidence_is_judged_by_the_policy_it_carries_on_its_day(document: dict[str, Any]) -> None:
    stricter = copy.deepcopy(document)
    stricter["policy"]["thresholds"]["embedding"]["float16"]["device_token_cosine"] = 0.99995
    stricter["digest"] = evidence_digest(stricter)
    with pytest.raises(EvidenceChanged, match="the gate says failed"):
        check_evidence(stricter)


def test_another_format_is_checked_by_digest_only(document: dict[str, Any]) -> None:
    document["format"], document["verdict"]["outcome"] = 1, "failed"
    document["digest"] = evidence_digest(document)
    check_evidence(document)


def test_stored_evidence_is_small_and_comes_back_whole(document: dict[str, Any]) -> None:
    packed = pack_evidence(document)
    assert unpack_evidence(packed) == document
    assert len(packed) < len(json.dumps(document)) / 3
    assert pack_evidence(document) == packed, "the same document has the same address"


@pytest.mark.parametrize("damage", [lambda b: b[:-9], lambda b: b"x" + b, lambda b: b""])
def test_damaged_evidence_is_refused(document: dict[str, Any], damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(EvidenceChanged):
        unpack_evidence(damage(pack_evidence(document)))


def test_evidence_that_unpacks_without_end_is_refused() -> None:
    with pytest.raises(EvidenceChanged, match="larger than"):
        unpack_evidence(zlib.compress(b" " * (LARGEST_DOCUMENT + 1)))


def test_the_row_keeps_no_seed(document: dict[str, Any]) -> None:
    kept = summary_of(document)
    assert kept["verdict"] == document["verdict"]
    assert "seeds" not in json.dumps(kept)


def test_seeds_of_another_candidate_are_refused(good_set: Callable[..., Measurements]) -> None:
    with pytest.raises(ValueError, match="seeds were drawn for"):
        make(good_set(), HiddenSeeds("ef" * 32, (1,)))
