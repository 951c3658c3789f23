"""Turns drafted code into an operator document without ever running it outside the sandbox."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agents.errors import CandidateRefused

from .answers import answer_of
from .limits import MIB, Limits, OutFile, SandboxResult
from .run import run_in_sandbox

CODE_MAX = 64 * 1024
ANSWER = OutFile("answer.json", 256 * 1024)
PACKAGES = ("torch", "numpy")
HELPERS = ("document.py", "document_ops.py", "digests.py", "errors.py")
"""The files of `adapters` that a capture needs; no other file of ours is shown."""

LIMITS = Limits(wall_s=90.0, cpu_s=90, memory=2048 * MIB, address_space=6144 * MIB)
DEFAULT_TARGET = {"shape": [2, 64, 128], "dtype": "float32"}
DTYPES = frozenset({"float32", "float16", "bfloat16", "float64"})


def capture_in_sandbox(code: str, target: dict[str, Any], *, limits: Limits = LIMITS) -> dict[str, Any]:
    """The document of drafted code that defines `patched(x)` (or `forward(x)`), one tensor in, one out.

    `target` may give `shape` (list of sizes) and `dtype` ("float32", ...); other keys are ignored. The document is
    what untrusted code answered: pass it to `adapters.document.validate` before anything else is done with it.
    Raises CandidateRefused with a reason for whoever drafted the code, SandboxUnavailable without a working sandbox.
    """
    if len(code.encode()) > CODE_MAX:
        raise CandidateRefused(f"the code is longer than {CODE_MAX} bytes")
    driver = Path(__file__).with_name("capture_driver.py").read_text()
    result = run_in_sandbox(
        driver,
        files_in={"drafted.py": code.encode(), "target.json": json.dumps(_target(target)).encode()},
        files_out=[ANSWER],
        limits=limits,
        packages=PACKAGES,
        tools=_helpers(),
    )
    return _document(result)


def _target(target: dict[str, Any]) -> dict[str, Any]:
    """Shape and dtype to capture with. Raises CandidateRefused for what is neither."""
    chosen = {key: target.get(key, default) for key, default in DEFAULT_TARGET.items()}
    sizes_ok = all(type(size) is int and 0 < size < 1 << 20 for size in chosen["shape"])
    if chosen["dtype"] not in DTYPES or not sizes_ok:
        raise CandidateRefused(f"the target {chosen!r} is not a shape and a float dtype")
    return chosen


def _helpers() -> dict[str, Path]:
    spec = find_spec("adapters")
    assert spec is not None
    assert spec.origin is not None
    return {f"adapters/{name}": Path(spec.origin).with_name(name) for name in HELPERS}


def _document(result: SandboxResult) -> dict[str, Any]:
    """The answer's document. Raises CandidateRefused with the reason the sandbox or the driver gave."""
    answer = answer_of(result, ANSWER)
    if isinstance(answer.get("document"), dict):
        return answer["document"]
    raise CandidateRefused(str(answer.get("refused", "the answer holds no document"))[:2000])
