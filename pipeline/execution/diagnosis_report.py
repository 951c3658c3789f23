"""`diagnose`: every cause of one model, where it comes from, what to do, and a script that shows it. No service."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from agents.types import FailureKind
from pipeline.diagnosis.answers import NOT_NEEDED, advice_for
from pipeline.errors import CheckpointProblem
from pipeline.execution.check import base_spec, run_stage
from pipeline.work.environment import environment_of


def diagnose_model(
    model_or_path: str, *, profile: str, weights: str = "auto", device: str = "simulator", reproducers: bool = True
) -> dict[str, Any]:
    """The document of the command's `--json`; reproducers as text in each cause's `reproducer`.

    Raises BadInput for an unknown model, CheckpointProblem for one that cannot be judged, EnvironmentProblem for ours.
    """
    with tempfile.TemporaryDirectory(prefix="spyre-diagnose-") as work:
        spec = base_spec(model_or_path, profile, weights, device, Path(work))
        found = run_stage("inspect", spec)
        if found["description"] == {}:
            return _document(model_or_path, profile, found, {})
        out = run_stage("diagnose", {**spec, "checkpoint_dir": found["checkpoint_dir"], "reproducers": reproducers})
        if "diagnoses" not in out:  # the model crashed, hung or could not be built in the child
            kind = FailureKind(out["failures"][0]["kind"])
            raise CheckpointProblem(kind, ". ".join(t for t in (out["reason"], advice_for(kind)) if t))
        return _document(model_or_path, profile, found, out)


def _document(model: str, profile: str, found: dict[str, Any], out: dict[str, Any]) -> dict[str, Any]:
    causes, unsearched = [shown(d) for d in out.get("diagnoses", [])], out.get("unsearched", [])
    return {
        "model": model,
        "profile": profile,
        "weights": found["weights"],
        "depth": out.get("depth", ""),
        "outcome": outcome_of(causes, unsearched),
        "causes": causes,
        "curves": out.get("curves", {}),
        "unsearched": unsearched,
        "environment": environment_of(profile),
        "next": next_step(causes, found["reason"], unsearched),
    }


def outcome_of(causes: list[dict[str, Any]], unsearched: list[dict[str, str]]) -> str:
    """`unknown` where nothing was found and not everything could be searched."""
    if any(not is_harmless(cause) for cause in causes):
        return "failed"
    return "unknown" if unsearched else "passed"


def shown(diagnosis: dict[str, Any]) -> dict[str, Any]:
    """One cause as the command prints it; `condition` is what an experiment named, of wrong values only."""
    failure, evidence = diagnosis["failure"], diagnosis["evidence"]
    named = failure["kind"] in ("wrong_values", "non_finite") and failure["scalars"]
    keys = ("kind", "op", "source", "module", "place", "count", "layers", "shapes", "dtypes", "dtype_run", "message")
    return {
        **{k: failure[k] for k in keys},
        "condition": failure["scalars"][0] if named else None,
        "patterns": [{"pattern": p["pattern"], "parameters": p["parameters"]} for p in diagnosis["patterns"]],
        "no_patch": diagnosis["no_patch"],
        "evidence": {k: v for k, v in evidence.items() if k != "reproducer"},
        "reproducer": evidence.get("reproducer"),
    }


def is_harmless(cause: dict[str, Any]) -> bool:
    """True where the device's values are right and no patch is needed."""
    return cause["no_patch"] is not None and cause["kind"] in NOT_NEEDED


def next_step(causes: list[dict[str, Any]], reason: str, unsearched: list[dict[str, str]]) -> str:
    """What to do, in one sentence."""
    open_causes = [c for c in causes if c["no_patch"] is None]
    never = [c for c in causes if c["no_patch"] is not None and not is_harmless(c)]
    if never:
        return str(never[0]["no_patch"])
    if not open_causes:
        return reason or ("Whether a patch is needed is not known." if unsearched else "No patch is needed.")
    patterns = sorted({p["pattern"] for c in open_causes for p in c["patterns"]})
    bare = [c for c in open_causes if not c["patterns"]]
    if bare:
        first = f"{bare[0]['kind']} {bare[0]['op']} at {bare[0]['source']}"
        return f"No pattern of the library removes {len(bare)} of the causes (first: {first}): request a drafted patch."
    return f"Run `spyre-factory request MODEL`: the patterns {', '.join(patterns)} apply."
