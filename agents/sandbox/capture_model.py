"""Captures a patched model, or runs it on random weights, without ever running drafted code outside the sandbox."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agents.capture.case import Case
from agents.errors import CandidateRefused

from .answers import answer_of
from .limits import MIB, Limits, OutFile, SandboxResult
from .run import run_in_sandbox

CODE_MAX = 64 * 1024
ANSWER = OutFile("answer.json", 64 * MIB)
OUTPUTS = OutFile("outputs.safetensors", 64 * MIB)
PACKAGES = ("torch", "numpy", "transformers", "safetensors")
LIMITS = Limits(
    wall_s=480.0,
    cpu_s=240,
    memory=6144 * MIB,
    address_space=16_384 * MIB,
    file_size=64 * MIB,
    tmp=160 * MIB,
)

Patches = Sequence[Mapping[str, Any]]


def capture_model_in_sandbox(
    config: Mapping[str, Any], patches: Patches, cases: Sequence[Case], *, limits: Limits = LIMITS
) -> list[dict[str, Any]]:
    """One document per case of the stock model of `config` (a config.json's content) with `patches` applied.

    The documents are what untrusted code answered: validate them before anything else is done with them.
    Raises CandidateRefused with a reason for whoever drafted the patches, SandboxUnavailable without a sandbox.
    """
    task = {"do": "capture", "config": config, "patches": list(patches), "cases": [c.to_dict() for c in cases]}
    answer = _answer(_run(task, {}, [ANSWER], limits))
    documents = answer.get("documents")
    if not isinstance(documents, list) or len(documents) != len(cases):
        raise CandidateRefused("the answer does not hold one document per case")
    return documents


def run_model_in_sandbox(
    config: Mapping[str, Any], patches: Patches, dtype: str, seed: int, inputs: bytes, *, limits: Limits = LIMITS
) -> bytes:
    """The patched model's outputs on the CPU, as safetensors ("N" for batch N) that untrusted code wrote.

    Weights are drawn from `seed`, `inputs` is a safetensors file with "N.name". Raises CandidateRefused,
    SandboxUnavailable.
    """
    task = {"do": "run", "config": config, "patches": list(patches), "dtype": dtype, "seed": seed}
    result = _run(task, {"inputs.safetensors": inputs}, [ANSWER, OUTPUTS], limits)
    _answer(result)
    if OUTPUTS.name not in result.files:
        raise CandidateRefused(f"the code left no outputs: {result.refused.get(OUTPUTS.name, 'no file')}")
    return result.files[OUTPUTS.name]


def _run(task: dict[str, Any], files: dict[str, bytes], outs: list[OutFile], limits: Limits) -> SandboxResult:
    content = json.dumps(task).encode()
    if sum(len(json.dumps(p)) for p in task["patches"]) > 4 * CODE_MAX:
        raise CandidateRefused(f"the patches are longer than {4 * CODE_MAX} bytes")
    return run_in_sandbox(
        _capture_folder().joinpath("inside.py").read_text(),
        files_in={"task.json": content, **files},
        files_out=outs,
        limits=limits,
        packages=PACKAGES,
        tools=tools(),
    )


def tools() -> dict[str, Path]:
    """The only code of ours that capture shows to the sandbox: the adapters, which are shipped, and capture itself."""
    return {"adapters": _folder("adapters"), "agents/capture": _capture_folder()}


def _folder(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _capture_folder() -> Path:
    return _folder("agents.capture")


def _answer(result: SandboxResult) -> dict[str, Any]:
    """The answer. Raises CandidateRefused with the reason the sandbox or the code gave."""
    answer = answer_of(result, ANSWER)
    if "refused" in answer:
        raise CandidateRefused(str(answer["refused"])[:2000])
    return answer
