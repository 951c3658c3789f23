"""A stage's child without a model, with evidence of the gate's own making. Run as `story_child.py STAGE SPEC OUT`.

`remote` in a model's name fails its inspection, `stock` passes without a patch, `scripted` gets a patch of the scripted
endpoint, `unsure` is executed without enough evidence, `hostile` answers with markup everywhere; anything else fails
until it gets an adapter or a candidate.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agents.types import Candidate, Drafter, Failure, FailureKind, PatchDraft
from pipeline.verification.evidence import evidence_document, leave_evidence, summary_of
from pipeline.verification.gate import judge
from pipeline.verification.measurements import (
    CaseMeasurement,
    ControlResult,
    Equivalence,
    EquivalenceResult,
    ExecutionProof,
    Measurements,
    Place,
    Weights,
)
from pipeline.verification.seeds import HiddenSeeds

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>"
NODES = [
    {"op": "aten.mul.Tensor", "args": [{"ref": 0}, {"ref": 0}]},
    {"op": "aten.mul.Tensor", "args": [{"ref": 1}, {"ref": 0}]},
]
DOCUMENT = {"version": 1, "nodes": NODES, "output": {"ref": 2}}


def failures(spec: dict[str, Any]) -> list[Failure]:
    text = HOSTILE if "hostile" in spec["model"] else "Spyre backend does not support: pow with exponent 3"
    op = HOSTILE[:100] if "hostile" in spec["model"] else "aten.pow.Tensor_Scalar"
    layer, kinds = "encoder.layer.*", FailureKind
    return [
        Failure(kinds.WRONG_VALUES, op, "activations.py:66", f"{layer}.intermediate", text, count=6),
        Failure(
            kinds.LAYOUT, "aten.view.default", "modeling_bert.py:180", f"{layer}.attention", "heads of 32", count=18
        ),
        Failure(kinds.UNSUPPORTED_DTYPE, "aten.clamp.default", "", "pooling", "clamp", place="outside"),
    ]


def candidate(spec: dict[str, Any]) -> Candidate:
    model = "scripted" if "scripted" in spec["model"] else None
    hostile = HOSTILE if "hostile" in spec["model"] else "pow(x, 3) -> x*x*x"
    drafter = Drafter.LLM if model else Drafter.RULES
    parameters = {"module_class": "transformers.activations.NewGELUActivation", "document": DOCUMENT}
    cured = (f"x*x*x for pow: cures wrong values of {failures(spec)[0].op}",)
    patches = (
        PatchDraft("P56", {"dtype": "float16"}, Drafter.RULES),
        PatchDraft("P01", parameters, drafter, proof=("pow_cube: " + hostile,), cures=cured, model=model),
        PatchDraft("P20", {"head_dim": 32, "padded_head_dim": 64}, Drafter.RULES),
        PatchDraft("P63", {"multiple": 64, "side": "right"}, Drafter.RULES),
    )
    return Candidate(spec["family"], spec["profile"], "float16", patches)


def case(name: str, draw: int, place: Place, side: str = "right") -> CaseMeasurement:
    broken = ("zeros", "shuffled_rows", "uniform_attention", "mask_dropped")
    controls = [ControlResult(name, True, 0.61, 0.4, True) for name in broken]
    controls.append(ControlResult("glu_swapped", False, detail="no gated feed-forward"))
    device = place is Place.DEVICE
    return CaseMeasurement(
        f"{name}, draw {draw}, {place}",
        draw, side, place, 6, 180, 0.99912 if device else 0.999999, 0.998, 1.003, 0.99987, 0.9991, True,
        1.12 if device else None, 0.9995, 0.9994 if device else None, tuple(controls),
        scripts=tuple(f"script {n}" for n in range(8)), empty_texts=1,
    )  # fmt: skip


def measured(spec: dict[str, Any]) -> Measurements:
    cases = [case(n, d, Place.DEVICE) for d in (0, 1) for n in ("mixed lengths", "long", "beyond a bucket")]
    cases += [case("mixed lengths", d, Place.CPU) for d in (0, 1)]
    weights = Weights.REAL if "real" in spec["model"] else Weights.SYNTHETIC
    same = Equivalence("P01", "exact", EquivalenceResult.EXACT, "every DL16 value in fp64", 20_001, 2.1e-16)
    ranking = (0.9995, 1128) if weights is Weights.REAL else (None, 0)
    return Measurements(weights, tuple(cases), ExecutionProof({}, (), 6), (same,), 1, *ranking)


def judged(spec: dict[str, Any], digest: str) -> dict[str, Any]:
    figures = measured(spec)
    verdict = judge(figures, "full")
    seeds = HiddenSeeds(digest, (11, 12))
    document = evidence_document(
        candidate=digest, checkpoint={"model": spec["model"]}, environment={}, seeds=seeds, recipe=None,
        measurements=figures, verdict=verdict, replay={"stage": "verify", "model": spec["model"]},
    )  # fmt: skip
    return {
        "outcome": str(verdict.outcome),
        "reason": verdict.sentence,
        "weights": str(figures.weights),
        "measurements": {"worst_token_cosine": 0.99912, "pooled_cosine": 0.99987, "fallbacks": {}, "cases": 8},
        "evidence": {**summary_of(document), "complete": True},
        "artefacts": [leave_evidence(document, Path(spec["workdir"]))],
        "seconds": 21.4,
    }


def inspect(spec: dict[str, Any]) -> dict[str, Any]:
    if "remote" in spec["model"]:
        return {
            "outcome": "failed",
            "kind": "remote_code",
            "reason": "The model needs its own code.",
        }
    return {"outcome": "passed", "seconds": 0.2}


def capture(spec: dict[str, Any]) -> dict[str, Any]:
    base = {"fingerprint": hashlib.sha256(spec["family"].encode()).hexdigest(), "seconds": 3.1}
    if spec["adapter"] or "stock" in spec["model"] or "unsure" in spec["model"]:
        return {**base, "outcome": "passed"}
    found = [asdict(f) for f in failures(spec)]
    return {**base, "outcome": "failed", "reason": f"{len(found)} causes: {found[0]['message']}", "failures": found}


def execute(spec: dict[str, Any]) -> dict[str, Any]:
    (Path(spec["workdir"]) / "numbers.json").write_text("{}")
    if "unsure" in spec["model"]:
        return {"outcome": "unknown", "reason": "no case counted: every control was missed", "weights": "synthetic"}
    found = judged(spec, "0" * 64)
    numbers = {"path": "numbers.json", "kind": "evidence", "name": "numbers"}
    return {**found, "artefacts": [numbers, *found["artefacts"]]}


def diagnose(spec: dict[str, Any]) -> dict[str, Any]:
    uses = ("P01", "P20", "P12")
    found = [
        {"failure": asdict(f), "patterns": [{"pattern": use, "parameters": {}}], "evidence": {}, "no_patch": None}
        for f, use in zip(failures(spec), uses, strict=True)
    ]
    if spec["reproducers"]:
        found[0]["evidence"]["reproducer"] = {"script": "print('" + HOSTILE + "')\n", "signature": {}, "said": ""}
        found[1]["evidence"]["reproducer"] = {"script": None, "reason": "not refused by itself"}
    return {"outcome": "passed", "diagnoses": found, "failures": [d["failure"] for d in found], "seconds": 8.0}


def draft(spec: dict[str, Any]) -> dict[str, Any]:
    drafted = candidate(spec)
    refused = drafted.digest in spec["rejected"]
    return {"outcome": "passed", "candidates": [] if refused else [drafted.to_dict()], "seconds": 0.4}


def verify(spec: dict[str, Any]) -> dict[str, Any]:
    return judged(spec, spec["candidate"]["digest"])


def replay(spec: dict[str, Any]) -> dict[str, Any]:
    """What the real child answers where the verdict came out again, or, on two threads, where it did not."""
    same = spec["how"]["threads"] == 1
    told = "The same verdict came out." if same else "Another verdict document came out."
    measured = {"verdict": spec["document"]["verdict"]["outcome"], "identical": same, "agrees": True}
    found = {**spec["how"], **measured, "differences": [] if same else ["cases: 8 then, 7 now"], "beyond_tolerance": []}
    return {"outcome": "passed" if same else "failed", "reason": told, "measurements": found, "evidence": spec["how"]}


def main(arguments: list[str]) -> None:
    stage, spec_path, out_path = arguments
    spec = json.loads(Path(spec_path).read_text())
    out = {body.__name__: body for body in (inspect, capture, execute, diagnose, draft, verify, replay)}[stage](spec)
    Path(out_path).write_text(json.dumps(out))


if __name__ == "__main__":
    main(sys.argv[1:4])
