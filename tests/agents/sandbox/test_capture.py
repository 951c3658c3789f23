"""Drafted code becomes a document, or is refused with a reason its drafter can act on."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from adapters.document import build, validate
from agents.errors import CandidateRefused
from agents.sandbox import KilledBy, Limits, SandboxResult, capture
from agents.sandbox.capture import capture_in_sandbox

GELU_NEW = """
import math

def patched(x):
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * (x * x * x))))
"""


@pytest.mark.sandbox
def test_drafted_gelu_becomes_a_document_that_replays_exactly() -> None:
    document = validate(capture_in_sandbox(GELU_NEW, {"shape": [2, 8, 32], "dtype": "float16"}))
    scope: dict[str, Any] = {"torch": torch}
    exec(GELU_NEW, scope)
    x = torch.linspace(-4, 4, 2 * 8 * 32).reshape(2, 8, 32)
    assert torch.equal(build(document)(x), scope["patched"](x))


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("def patched(x): return x if x.sum() > 0 else -x", "data-dependent"),
        ("def patched(x): return x.softmax(-1)", "not allowed in a document"),
        ("def other(x): return x", "defines no function"),
        ("def patched(x:\n    return x", "drafted.py, line"),
        ("import os\nos._exit(0)", "gave no answer"),
    ],
)
def test_code_that_cannot_be_captured_is_refused_with_the_reason(code: str, reason: str) -> None:
    with pytest.raises(CandidateRefused, match=reason):
        capture_in_sandbox(code, {})


@pytest.mark.sandbox
def test_code_that_does_not_end_is_refused() -> None:
    with pytest.raises(CandidateRefused, match="wall_clock"):
        capture_in_sandbox("while True: pass", {}, limits=Limits(wall_s=4))


@pytest.mark.parametrize("target", [{"shape": [0]}, {"shape": [1 << 30]}, {"dtype": "int64"}, {"dtype": "__class__"}])
def test_a_target_that_is_no_shape_or_float_is_refused(target: dict[str, Any]) -> None:
    with pytest.raises(CandidateRefused, match="float dtype"):
        capture_in_sandbox(GELU_NEW, target)


def test_code_that_is_too_long_is_refused() -> None:
    with pytest.raises(CandidateRefused, match="longer than"):
        capture_in_sandbox("#" * (capture.CODE_MAX + 1), {})


@pytest.mark.parametrize("content", [b"", b"[1]", b"{}", b'{"document": 3}', b"[" * 100_000, b"\xff"])
def test_an_answer_that_is_no_document_is_refused(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    forged = SandboxResult("", "", 0, files={"answer.json": content})
    monkeypatch.setattr(capture, "run_in_sandbox", lambda *_, **__: forged)
    with pytest.raises(CandidateRefused):
        capture_in_sandbox(GELU_NEW, {})


def test_an_answer_written_before_a_limit_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = SandboxResult("", "", None, files={"answer.json": b'{"document": {}}'}, killed_by=KilledBy.MEMORY)
    monkeypatch.setattr(capture, "run_in_sandbox", lambda *_, **__: ended)
    with pytest.raises(CandidateRefused, match="memory"):
        capture_in_sandbox(GELU_NEW, {})
