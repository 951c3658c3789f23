"""The draft stage: what the drafters know of the verdicts before."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agents.types import Diagnosis, Failure, FailureKind, PatternUse
from pipeline.execution.draft import draft
from pipeline.execution.subject import Subject
from pipeline.review.told import INEXACT

from .tiny_evidence import CONFIG, PROFILE

CAUSE = Diagnosis(
    Failure(FailureKind.WRONG_VALUES, "sdpa", "modeling.py:10", "encoder.layer.*", "wrong"),
    (PatternUse("P54"), PatternUse("P61")),
)


def drafted(folder: Path, rejected: dict[str, str]) -> dict[str, Any]:
    (folder / "config.json").write_text(json.dumps(CONFIG))
    subject = Subject("a/tiny", folder, PROFILE, folder)
    spec = {"diagnoses": [asdict(CAUSE)], "rejected": rejected, "drafters": "rules"}
    [candidate] = draft(subject, spec)["candidates"]
    return candidate


def patterns(candidate: dict[str, Any]) -> list[str]:
    return [patch["pattern"] for patch in candidate["patches"]]


def test_less_error_is_asked_of_the_set_that_was_right_not_of_one_refused_before(tmp_path: Path) -> None:
    first = drafted(tmp_path, {})
    second = drafted(tmp_path, {first["digest"]: "wrong values"})
    third = drafted(tmp_path, {first["digest"]: "wrong values", second["digest"]: INEXACT})
    assert [patterns(c) for c in (first, second, third)] == [["P54"], ["P61"], ["P57", "P61"]]
