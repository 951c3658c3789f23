"""What `spyre-factory check` prints for people."""

from __future__ import annotations

from typing import Any

from pipeline.cli.check import as_text

RATIO = "the error is 1.53 times that of an ideal device"
ANSWER: dict[str, Any] = {
    "model": "a/model", "profile": "profile-2026-08", "weights": "real", "outcome": "unknown", "reason": RATIO,
    "adapter": "bert-shaped 1", "worst_token_cosine": 0.9999, "pooled_cosine": 0.9999, "failures": [],
    "next": "Report it.",
}  # fmt: skip


def test_what_does_not_pass_says_why() -> None:
    assert as_text(ANSWER).splitlines()[-2:] == [RATIO, "Report it."]
    assert RATIO not in as_text({**ANSWER, "outcome": "passed"})
