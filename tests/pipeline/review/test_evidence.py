"""Stored evidence: one compressed document under its own address, found again, shown without seeds, never altered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy.orm import Session

from pipeline.database.artefacts import artefact_path, store_bytes
from pipeline.errors import BadInput, FactoryError, NotFound
from pipeline.review import repository
from pipeline.review.evidence import find_document, list_evidence, shown_document
from pipeline.review.models import EvidenceRow
from pipeline.verification.evidence import (
    EVIDENCE_KIND,
    EVIDENCE_MEDIA,
    EVIDENCE_NAME,
    evidence_document,
    pack_evidence,
    summary_of,
)
from pipeline.verification.gate import judge
from pipeline.verification.measurements import Measurements, Weights
from pipeline.verification.seeds import HiddenSeeds

Drain = Callable[[], list[int]]


def document(candidate: str) -> dict[str, Any]:
    measured = Measurements(Weights.SYNTHETIC)
    return evidence_document(
        candidate=candidate, checkpoint={"model": "a/one"}, environment={}, recipe=None,
        seeds=HiddenSeeds(candidate, (123456789, 5)),
        measurements=measured, verdict=judge(measured, "full"), replay={"model": "a/one"},
    )  # fmt: skip


@pytest.fixture
def row(session: Session, sweep_of: Callable[..., int], drain: Drain) -> EvidenceRow:
    """The evidence of one candidate, with a stored document."""
    session.commit()
    sweep_of("a/one")
    drain()
    (candidate,) = repository.list_candidates(session)
    (found,) = candidate.evidence
    whole = document(candidate.digest)
    digest = store_bytes(session, pack_evidence(whole), EVIDENCE_KIND, EVIDENCE_MEDIA)
    found.artefacts = [{"digest": digest, "kind": EVIDENCE_KIND, "name": EVIDENCE_NAME}]
    found.evidence = summary_of(whole)
    session.flush()
    return found


def test_it_is_found_by_number_and_by_the_beginning_of_its_address(session: Session, row: EvidenceRow) -> None:
    address = row.artefacts[0]["digest"]
    assert find_document(session, str(row.id)) == find_document(session, address[:12])
    assert find_document(session, address)[0] == address
    assert find_document(session, address)[1]["seeds"]["seeds"] == [123456789, 5]
    assert [found["document"] for found in list_evidence(session)] == [address]


@pytest.mark.parametrize(("which", "problem"), [("99", NotFound), ("abc", BadInput), ("0" * 12, NotFound)])
def test_what_is_not_there_is_said(session: Session, row: EvidenceRow, which: str, problem: type[Exception]) -> None:
    with pytest.raises(problem):
        find_document(session, which)


def test_what_is_shown_has_the_measurements_and_no_seed(session: Session, row: EvidenceRow) -> None:
    shown = shown_document(row)
    assert shown["measurements"]["cases"] == []
    assert "123456789" not in str(shown)
    assert "123456789" not in str(row.evidence)


def test_a_document_that_is_gone_leaves_what_the_row_keeps(session: Session, row: EvidenceRow) -> None:
    artefact_path(row.artefacts[0]["digest"]).unlink()
    assert shown_document(row) == row.evidence


def test_an_altered_document_is_refused(session: Session, row: EvidenceRow) -> None:
    path = artefact_path(row.artefacts[0]["digest"])
    path.write_bytes(pack_evidence(document("ef" * 32)))
    with pytest.raises(FactoryError):
        shown_document(row)
