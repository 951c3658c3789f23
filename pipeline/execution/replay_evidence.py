"""Evidence, run again: the stored SPEC with the stored seeds in a fresh child, judged by the stored policy of its day.

The verdict document must come out to the letter whatever the number of threads and the instruction set; the figures
must agree within the policy's tolerance.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Literal

from pipeline.errors import BadInput, EnvironmentProblem
from pipeline.execution.device import open_device
from pipeline.verification.agreement import Moved, compare_measurements, document_differences
from pipeline.verification.evidence import EVIDENCE_FORMAT, EVIDENCE_NAME, unpack_evidence
from pipeline.verification.gate import judge
from pipeline.verification.measurements import measurements_from_dict
from pipeline.verification.policy import policy_from_dict
from pipeline.weights.children_env import children_env
from pipeline.work.process import run_child

Capability = Literal["default", "avx2", "avx512"]
DeviceKind = Literal["simulator", "hardware"]
TIMEOUT_S = {"inspect": 300.0, "weights": 600.0, "execute": 1_800.0}
MEMORY_MB = 20_000


@dataclass(frozen=True)
class Replayed:
    """What came of it. `differences` are those of the verdict documents; `moved` are all figures, `environment` names
    what is of another version than then."""

    outcome: str
    differences: tuple[str, ...]
    moved: tuple[Moved, ...]
    environment: tuple[str, ...]
    verdict: dict[str, Any] = field(default_factory=dict)
    """The verdict document of the new run."""

    @property
    def identical(self) -> bool:
        """True if the verdict document came out to the letter."""
        return not self.differences

    @property
    def agrees(self) -> bool:
        """True if every figure is within its tolerance."""
        return all(m.agrees for m in self.moved)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "outcome": self.outcome,
            "identical": self.identical,
            "agrees": self.agrees,
            "differences": list(self.differences),
            "beyond_tolerance": [str(m) for m in self.moved if not m.agrees],
            "largest": largest(self.moved),
            "environment": list(self.environment),
        }


def largest(moved: tuple[Moved, ...]) -> dict[str, float | str]:
    """Figure to how far it moved at most over all cases; "inf" where only one run has it."""
    found: dict[str, float] = {}
    for m in moved:
        found[m.figure] = max(m.distance, found.get(m.figure, 0.0))
    return {name: value if value != float("inf") else "inf" for name, value in sorted(found.items())}


def replay(
    document: dict[str, Any],
    workdir: Path,
    *,
    threads: int = 1,
    capability: Capability | None = None,
    device: DeviceKind | None = None,
) -> Replayed:
    """Runs the evidence again in `workdir`, on its own kind of device or on `device`.

    The document has been checked by `unpack_evidence`. Raises BadInput for a document without a SPEC,
    EnvironmentProblem if the run gives no evidence or there is no such device.
    """
    if document["format"] != EVIDENCE_FORMAT or not document["replay"]:
        raise BadInput(f"evidence of format {document['format']!r} carries nothing to run again")
    if device is not None:
        open_device(device, document["environment"]["profile"])
        document = {**document, "replay": {**document["replay"], "device": device}}
    again = run_again(document, workdir, children_env(workdir, threads=threads, extra=_instructions(capability)))
    policy = policy_from_dict(document["policy"])
    stored, now = (measurements_from_dict(d["measurements"]) for d in (document, again))
    tier, day = document["verdict"]["tier"], date.fromisoformat(document["verdict"]["judged_on"])
    verdict = judge(now, tier, policy, day)
    return Replayed(
        outcome=str(verdict.outcome),
        differences=tuple(document_differences(document["verdict"]["document"], verdict.document())),
        moved=tuple(compare_measurements(stored, now, policy.tolerance)),
        environment=tuple(_changes(_inputs(document), _inputs(again))),
        verdict=verdict.document(),
    )


def _instructions(capability: str | None) -> dict[str, str]:
    return {"ATEN_CPU_CAPABILITY": capability} if capability else {}


def _inputs(document: dict[str, Any]) -> dict[str, Any]:
    """What a run starts from: versions, checkpoint, and synthetic weights by their digest."""
    weights = (document["recipe"] or {}).get("weights_digest")
    return {**document["environment"], "checkpoint": document["checkpoint"], "weights": weights}


def _changes(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    names = sorted({*then, *now} - {"digest"})
    return [f"{n}: {then.get(n)} then, {now.get(n)} now" for n in names if then.get(n) != now.get(n)]


def run_again(document: dict[str, Any], workdir: Path, env: dict[str, str]) -> dict[str, Any]:
    """The evidence document of a fresh run of the same SPEC with the same seeds.

    Synthetic weights are made first, with the threads and the instruction set of then: they are what is measured.
    """
    spec = {**document["replay"], "seeds": document["seeds"], "workdir": str(workdir)}
    if not Path(spec.get("checkpoint_dir") or "").is_dir():
        spec = {**spec, "checkpoint_dir": None, "data_dir": str(workdir)}
        spec["checkpoint_dir"] = _stage("inspect", spec, workdir, env)["checkpoint_dir"]
    if document["recipe"] is not None:
        spec["weights_dir"] = _stage("weights", spec, workdir, _env_of_then(document, workdir))["folder"]
    out = _stage("execute", spec, workdir, env)
    path = workdir / EVIDENCE_NAME
    if not path.is_file():
        raise EnvironmentProblem(f"the run left no evidence: {out['outcome']} {out.get('reason', '')[:500]}")
    return unpack_evidence(path.read_bytes())


def _env_of_then(document: dict[str, Any], workdir: Path) -> dict[str, str]:
    numerics = document["replay"]["numerics"]
    return children_env(workdir, threads=numerics["threads"], extra=_instructions(numerics["capability"]))


def _stage(stage: str, spec: dict[str, Any], workdir: Path, env: dict[str, str]) -> dict[str, Any]:
    spec_path, out_path = workdir / f"{stage}.json", workdir / f"{stage}.out.json"
    spec_path.write_text(json.dumps(spec))
    argv = [sys.executable, "-m", "pipeline.execution.child", stage, str(spec_path), str(out_path)]
    ended = run_child(argv, timeout_s=TIMEOUT_S[stage], memory_mb=MEMORY_MB, env=env)
    if not out_path.exists():
        raise EnvironmentProblem(f"the {stage} stage left no answer: {ended.reason} {ended.stderr[-1500:]}")
    out: dict[str, Any] = json.loads(out_path.read_text())
    return out
