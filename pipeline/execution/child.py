"""The stage child: `python -m pipeline.execution.child STAGE SPEC.json OUT.json`.

Reads SPEC, does one stage of one subject, writes OUT. A fault of the model is a result (`failed` with its kind), a
fault of ours is `infra`, a name nobody knows `unknown`; anything else ends the process, and whoever started it stores
a crash.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

from agents.sandbox import ask_before_running
from agents.types import Failure, FailureKind
from pipeline.errors import BadInput, CheckpointProblem, EnvironmentProblem
from pipeline.work.sandbox_state import sandbox_refusal


def run_inspect(spec: dict[str, Any]) -> dict[str, Any]:
    """Judge config and files; find or make the checkpoint folder."""
    from pipeline.execution.inspect import inspect_subject

    return inspect_subject(spec)


def run_capture(spec: dict[str, Any]) -> dict[str, Any]:
    """Capability of the stock model, or of the model with its adapter."""
    from pipeline.execution.capture import capture
    from pipeline.execution.subject import subject_from_spec

    return capture(subject_from_spec(spec))


def run_execute(spec: dict[str, Any]) -> dict[str, Any]:
    """Reference, device run, measures and verdict."""
    from pipeline.execution.execute import execute
    from pipeline.execution.standby import standing_by
    from pipeline.execution.subject import subject_from_spec

    subject = subject_from_spec(spec)
    with standing_by(subject) as standbys:
        return execute(subject, standbys)


def run_diagnose(spec: dict[str, Any]) -> dict[str, Any]:
    """Every cause, silent ones included, with the patterns that could apply."""
    from pipeline.execution.diagnose import diagnose
    from pipeline.execution.subject import subject_from_spec

    scripts, budget = bool(spec.get("reproducers")), spec.get("reproducers_s")
    return diagnose(subject_from_spec(spec), reproducers=scripts, budget_s=budget)


def run_draft(spec: dict[str, Any]) -> dict[str, Any]:
    """Candidates for the diagnoses in SPEC."""
    from pipeline.execution.draft import draft
    from pipeline.execution.subject import subject_from_spec

    return draft(subject_from_spec(spec), spec)


def run_weights(spec: dict[str, Any]) -> dict[str, Any]:
    """Synthetic weights alone, for a replay that measures them under other threads or instructions."""
    from pipeline.execution.execute import FULL
    from pipeline.execution.subject import subject_from_spec
    from pipeline.execution.weights import prepare

    subject = subject_from_spec(spec)
    prepared = prepare(subject, brief=subject.tier != FULL)
    return {"outcome": "passed", "folder": str(prepared.folder), "recipe": prepared.recipe}


def run_replay(spec: dict[str, Any]) -> dict[str, Any]:
    """Stored evidence measured again: `passed` if the same verdict document came out and every figure agrees."""
    from pipeline.execution.replay_evidence import replay

    how = {name: spec["how"][name] for name in ("threads", "capability")}
    done = replay(spec["document"], Path(spec["workdir"]), **how)
    same = done.identical and done.agrees
    other = "Figures moved beyond their tolerance." if done.identical else "Another verdict document came out."
    measured = {**how, "verdict": done.outcome, **done.to_dict()}
    out = {"outcome": "passed" if same else "failed", "reason": "The same verdict came out." if same else other}
    return {**out, "measurements": measured, "evidence": spec["how"]}


PREPARED = (
    "torch._dynamo.backends.inductor",
    "torch._dynamo.backends.distributed",
    "torch._inductor.codegen.cpp_wrapper_gpu",
    "torch._inductor.codegen.cuda_combined_scheduling",
    "torch._inductor.codegen.pallas",
    "torch._inductor.compile_fx",
    "torch._inductor.lowering",
    "torch.distributed.tensor.experimental",
    "transformers.modeling_utils",
    "sim_backend.capabilities",
    "sim_backend.compiler.block_audit",
    "sim_backend.compiler.lowerings",
    "sim_backend.compiler.program",
    "sim_backend.compiler.registration",
    "sim_backend.compiler.scheduling",
    "sim_backend.compiler.wrapper",
    "sim_backend.device.eager",
    "sim_backend.device.host_forms",
    "sim_backend.device.strided",
    "sim_backend.errata.table",
    "sim_backend.layouts",
    "adapters.adaptation",
    "adapters.patches.registry",
    "adapters.releases.manifest",
    "agents.capture.inside",
    "pipeline.execution.inspect",
    "pipeline.execution.capture",
    "pipeline.execution.standby",
    "pipeline.execution.execute",
    "pipeline.execution.diagnose",
    "pipeline.weights.synthetic.build",
)
"""What the stages import when they run."""


STAGES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "inspect": run_inspect,
    "capture": run_capture,
    "execute": run_execute,
    "diagnose": run_diagnose,
    "draft": run_draft,
    "verify": run_execute,
    "weights": run_weights,
    "replay": run_replay,
}


def model_fault(problem: CheckpointProblem) -> dict[str, Any]:
    """OUT for a checkpoint that cannot be judged for a reason of its own."""
    failure = Failure(FailureKind(problem.kind), op="", source="", module="", message=str(problem))
    return {"outcome": "failed", "reason": str(problem), "failures": [asdict(failure)]}


def run_stage(stage: str, spec: dict[str, Any]) -> dict[str, Any]:
    """OUT of one stage."""
    try:
        return STAGES[stage](spec)
    except CheckpointProblem as problem:
        return model_fault(problem)
    except BadInput as problem:
        return {"outcome": "unknown", "reason": str(problem), "error": problem.code}
    except EnvironmentProblem as problem:
        return {"outcome": "infra", "reason": str(problem)}


def prepare() -> None:
    """Import what the stages need, for the children that are forked from this process. Nothing is computed."""
    for name in PREPARED:
        import_module(name)


def main(arguments: list[str]) -> None:
    """Read SPEC, run the stage, write OUT: STAGE, SPEC and OUT are the arguments."""
    stage, spec_path, out_path = arguments
    spec = json.loads(Path(spec_path).read_text())
    Path(spec["workdir"]).mkdir(parents=True, exist_ok=True)
    if "data_dir" in spec:  # a worker's child: drafted code only where the worker's self-test passed
        ask_before_running(cache(partial(sandbox_refusal, Path(spec["data_dir"]))))
    unfinished = Path(out_path).with_suffix(".partial")
    unfinished.write_text(json.dumps(run_stage(stage, spec)))
    unfinished.rename(out_path)


if __name__ == "__main__":
    main(sys.argv[1:])
