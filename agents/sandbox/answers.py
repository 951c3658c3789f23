"""What untrusted code left as its answer: data, or the reason why there is none. Nothing in it is believed here."""

from __future__ import annotations

import json
from typing import Any

from agents.errors import CandidateRefused

from .limits import OutFile, SandboxResult


def json_object(content: bytes | None) -> dict[str, Any] | None:
    """The JSON object written in `content`; None for anything else."""
    try:
        found = json.loads(content or b"")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def answer_of(result: SandboxResult, file: OutFile) -> dict[str, Any]:
    """The object in an answer file. Raises CandidateRefused where a limit ended the code or it left no object."""
    if result.killed_by is not None:
        raise CandidateRefused(f"the code was ended by its limit: {result.killed_by}")
    answer = json_object(result.files.get(file.name))
    if answer is None:
        raise CandidateRefused(f"the code gave no answer (status {result.exit}): {result.stderr.strip()[-500:]}")
    return answer
