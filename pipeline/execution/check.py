"""`check`: one model, no service, no database. Stages run in children as in the service; the answer is one document."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from pipeline.errors import BadInput, CheckpointProblem, EnvironmentProblem
from pipeline.execution import child
from pipeline.weights.children_env import children_env
from pipeline.work.environment import environment_of
from pipeline.work.starting import prepared_server

TIMEOUT_S = {"inspect": 120.0, "capture": 180.0, "execute": 560.0, "diagnose": 1800.0}
MEMORY_MB = 20_000


def check(
    model_or_path: str, *, profile: str, adapter: bool, weights: str = "auto", device: str = "simulator"
) -> dict[str, Any]:
    """Capability, verdict and what to do for one model; the keys are those of the command's `--json`.

    With `adapter`, the matching bundled or loaded adapter is applied; without, the stock model is judged.
    Raises BadInput for an unknown model, CheckpointProblem for one that cannot be judged, EnvironmentProblem for ours.
    """
    with tempfile.TemporaryDirectory(prefix="spyre-check-") as work:
        spec = base_spec(model_or_path, profile, weights, device, Path(work))
        found = run_stage("inspect", spec)
        spec |= {"checkpoint_dir": found["checkpoint_dir"], "family": found["family"]}
        manifest = matching_manifest(found["family"], profile) if adapter else None
        captured = run_stage("capture", {**spec, "adapter": manifest})
        result = answer(model_or_path, profile, found, manifest, captured)
        if captured["outcome"] != "passed":
            return result
        executed = run_stage("execute", {**spec, "adapter": manifest})
        return {**result, **verdict(executed, manifest)}


def base_spec(model_or_path: str, profile: str, weights: str, device: str, work: Path) -> dict[str, Any]:
    """The SPEC keys common to all stages of a check."""
    folder = Path(model_or_path)
    is_folder = folder.is_dir()
    return {
        "model": folder.resolve().name if is_folder else model_or_path,
        "checkpoint_dir": str(folder.resolve()) if is_folder else None,
        "profile": profile,
        "weights": weights,
        "device": device,
        "tier": "sweep",
        "workdir": str(work),
    }


def run_stage(stage: str, spec: dict[str, Any]) -> dict[str, Any]:
    """One stage in a child. Raises CheckpointProblem or EnvironmentProblem where the stage says so."""
    work = Path(spec["workdir"])
    spec_path, out_path = work / f"{stage}.json", work / f"{stage}.out.json"
    spec_path.write_text(json.dumps(spec))
    env = children_env(work)
    ended = prepared_server(child.__name__, "check", env).run(
        [stage, str(spec_path), str(out_path)], timeout_s=TIMEOUT_S[stage], memory_mb=MEMORY_MB, env=env, cwd=work
    )
    if not out_path.exists():
        raise EnvironmentProblem(f"the {stage} stage left no answer: {ended.reason} {ended.stderr[-1500:]}")
    out: dict[str, Any] = json.loads(out_path.read_text())
    if "error" in out:
        raise BadInput(out["reason"])
    if out["outcome"] == "infra":
        raise EnvironmentProblem(out["reason"])
    if stage == "inspect" and out["outcome"] == "failed":
        raise CheckpointProblem(out["failures"][0]["kind"], out["reason"])
    return out


def matching_manifest(family: str, profile: str) -> dict[str, Any] | None:
    """The bundled adapter of the family for the profile, as plain data; None if there is none."""
    from pipeline.releases.service import bundled_manifests, families_of

    return next((m for m in bundled_manifests() if m["profile"] == profile and family in families_of(m)), None)


def answer(
    model: str, profile: str, found: dict[str, Any], manifest: dict[str, Any] | None, captured: dict[str, Any]
) -> dict[str, Any]:
    """The document after capture: outcome, failures (silent ones predicted by the device's documentation last)."""
    failures = [*captured["failures"], *map(known_defect, captured["predicted"])]
    return {
        "model": model,
        "profile": profile,
        "weights": found["weights"],
        "outcome": "failed" if failures else "unknown",
        "failures": [shown(f) for f in failures],
        "adapter": manifest and f"{manifest['name']} {manifest['version']}",
        "worst_token_cosine": None,
        "pooled_cosine": None,
        "fallbacks": {},
        "environment": environment_of(profile),
        "next": next_step(bool(failures), manifest),
    }


def known_defect(predicted: dict[str, Any]) -> dict[str, Any]:
    """A predicted defect as a failure: the device gives wrong values there without an error."""
    return {
        **predicted,
        "kind": "wrong_values",
        "message": f"known device defect {predicted['predicted']}: {predicted['message']}",
    }


def shown(failure: dict[str, Any]) -> dict[str, Any]:
    """The keys of a failure that the command promises."""
    return {k: failure[k] for k in ("kind", "op", "source", "module", "count", "message")}


def verdict(executed: dict[str, Any], manifest: dict[str, Any] | None) -> dict[str, Any]:
    """What execution adds to the answer."""
    measured = executed.get("measurements") or {}
    passed = executed["outcome"] == "passed"
    return {
        "outcome": executed["outcome"],
        "failures": [shown(f) for f in executed["failures"]],
        "worst_token_cosine": measured.get("worst_token_cosine"),
        "pooled_cosine": measured.get("pooled_cosine"),
        "fallbacks": measured.get("fallbacks", {}),
        "weights": executed["weights"],
        "depth": executed["depth"],
        "reason": executed["reason"],
        "next": next_step(not passed, manifest),
    }


def next_step(failing: bool, manifest: dict[str, Any] | None) -> str:
    """What to do, in one sentence."""
    if not failing:
        return 'Load it with SentenceTransformer(path, backend="spyre").' if manifest else "No patch is needed."
    if manifest:
        return "The adapter does not make this checkpoint pass: run `spyre-factory diagnose` and report it."
    return "No adapter is applied: run `spyre-factory request MODEL`, or leave out --no-adapter if one exists."
