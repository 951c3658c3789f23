"""A candidate through a whole verification: the stage of production with device, controls, oracles and gate."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from agents.types import Candidate, Drafter, Exactness, PatchDraft
from pipeline.verification.selftest.entry import Patches, Stage
from pipeline.verification.selftest.judge import DTYPE, Judgement
from pipeline.verification.selftest.subjects import SUBJECTS

PROFILE, TIER = "profile-2026-08", "full"
"""The tier of every candidate before its review: the sweep's texts are all within one bucket."""


def judge_whole(subject: str, patches: Patches, pooling: str = "") -> Judgement:
    """What the stage that verifies candidates says of this one; anything but `passed` is a refusal.

    The checkpoint declares `pooling` if it is given. The stage draws its own seeds. Raises EnvironmentProblem if it
    gives no verdict.
    """
    from pipeline.execution.check import base_spec, run_stage

    with tempfile.TemporaryDirectory(prefix="spyre-whole-") as folder:
        model, work = Path(folder) / "model", Path(folder) / "work"
        work.mkdir()
        write_checkpoint(model, SUBJECTS[subject], pooling)
        spec = {**base_spec(str(model), PROFILE, "synthetic", "simulator", work), "tier": TIER}
        out = run_stage("execute", {**spec, "candidate": candidate_of(subject, patches).to_dict()})
    if out["outcome"] == "passed":
        return Judgement(True)
    return Judgement(
        False, Stage.DEVICE if out.get("executed") else Stage.CAPTURE, f"{out['outcome']}: {out['reason']}"
    )


def write_checkpoint(folder: Path, config: dict[str, Any], pooling: str) -> None:
    """A checkpoint without weights; with a pooling it has the module chain of sentence-transformers."""
    files: dict[str, Any] = {"config.json": config}
    if pooling:
        parts = (("", "Transformer"), ("1_Pooling", "Pooling"))
        listed = [{"path": path, "type": f"sentence_transformers.models.{name}"} for path, name in parts]
        files |= {"modules.json": listed, "1_Pooling/config.json": {"pooling_mode": pooling}}
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))


def candidate_of(subject: str, patches: Patches) -> Candidate:
    """The candidate that a drafter would submit."""
    return Candidate(subject, PROFILE, DTYPE, tuple(map(_draft, patches)))


def _draft(patch: dict[str, Any]) -> PatchDraft:
    bound = patch.get("bound")
    return PatchDraft(
        patch["pattern"],
        patch["parameters"],
        Drafter.LLM if patch["pattern"] == "code" else Drafter.RULES,
        Exactness.EXACT if bound is None else Exactness.BOUNDED,
        bound,
    )
