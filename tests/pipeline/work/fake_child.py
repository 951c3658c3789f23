"""A stage's child without a model: answers by the model's name, in milliseconds. Run as `fake_child.py STAGE SPEC OUT`.

`crash` in the name ends it by a signal at capture, `hang` makes it sleep there, `holds-the-gil` without letting
any other thread of it run, `hungry` fills memory there, `pause-STAGE` for a while in that
stage, `inexact` gets no answer for its first candidate, `never-exact` for none, `lucky` passes
at first with an error that one draw alone would not pass with,
`stock` passes without a patch, `below-limit` runs and is refused by the gate, anything else fails until it gets
an adapter or a candidate. Every call leaves a line in `<data dir>/calls.log`.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path


def canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


PAUSE_S = 5.0
"""Longer than the lease of the fault tests."""

FAILURE = {
    "kind": "unsupported_op",
    "op": "aten.pow.Tensor_Scalar",
    "source": "activations.py:1",
    "module": "encoder.layer.*.act",
    "message": "Spyre backend does not support: pow",
    "place": "block",
    "count": 6,
    "layers": 6,
    "shapes": [],
    "dtypes": [],
    "scalars": [3.0],
    "dtype_run": "float16",
    "after": False,
}


def candidate(spec: dict, rejected: int) -> dict:
    patches = [
        {
            "pattern": pattern,
            "parameters": {"round": rejected},
            "drafter": "rules",
            "exactness": "exact",
            "bound": None,
            "proof": [],
            "cures": [],
            "model": "scripted" if "scripted" in spec["model"] else None,
            "trajectory": None,
        }
        for pattern in ("P56", "P01")
    ]
    core = [[p["pattern"], p["parameters"]] for p in patches]
    head = {"family": spec["family"], "profile": spec["profile"], "dtype": "float16"}
    digest = hashlib.sha256(canonical([*head.values(), core])).hexdigest()
    return {**head, "patches": patches, "digest": digest}


def inspect(spec: dict) -> dict:
    if "remote" in spec["model"]:
        return {"outcome": "failed", "kind": "remote_code", "reason": "The model needs its own code."}
    return {"outcome": "passed"}


def capture(spec: dict) -> dict:
    if "crash" in spec["model"]:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "hang" in spec["model"]:
        time.sleep(600)
    if "holds-the-gil" in spec["model"]:
        ctypes.PyDLL(None).sleep(600)  # unlike CDLL it keeps the interpreter's lock meanwhile
    if "hungry" in spec["model"]:
        eaten = []
        while True:
            eaten.append(bytearray(b"x") * 20_000_000)
            time.sleep(0.01)
    fingerprint = hashlib.sha256(canonical(spec["config"])).hexdigest()
    if "slow" in spec["model"]:
        time.sleep(1.5)
    if spec["adapter"] or "stock" in spec["model"]:
        return {"outcome": "passed", "fingerprint": fingerprint}
    return {"outcome": "failed", "reason": "1 cause", "failures": [FAILURE], "fingerprint": fingerprint}


def execute(spec: dict) -> dict:
    real = "real" in spec["model"]
    if "below-limit" in spec["model"]:
        return {"outcome": "failed", "reason": "lowest token cosine 0.4 is below 0.99", "weights": "synthetic"}
    (Path(spec["workdir"]) / "numbers.json").write_text("{}")
    return {
        "outcome": "passed",
        "weights": "real" if real else "synthetic",
        "measurements": {"worst_token_cosine": 0.999},
        "artefacts": [{"path": "numbers.json", "kind": "evidence", "name": "numbers"}],
    }


def diagnose(spec: dict) -> dict:
    diagnosis = {
        "failure": FAILURE,
        "patterns": [{"pattern": "P01", "parameters": {}}],
        "evidence": {},
        "no_patch": None,
    }
    return {"outcome": "passed", "diagnoses": [diagnosis]}


def draft(spec: dict) -> dict:
    assert spec["diagnoses"], "a draft needs diagnoses"
    if "many" in spec["model"]:
        return {"outcome": "passed", "candidates": [candidate(spec, number) for number in range(5)]}
    return {"outcome": "passed", "candidates": [candidate(spec, len(spec["rejected"]))]}


def verify(spec: dict) -> dict:
    first = spec["candidate"]["patches"][0]["parameters"].get("round") == 0
    wrong_first = "second" in spec["model"] and first
    if "lucky" in spec["model"] and first:
        return {**PASSED, "measurements": {**PASSED["measurements"], "worst_draw_error_ratio": 1.51}}
    if "never-exact" in spec["model"] or ("inexact" in spec["model"] and first):
        return inexact()
    if wrong_first:
        return {**PASSED, "outcome": "failed", "reason": "lowest token cosine 0.4", "kind": "wrong_values"}
    return PASSED


PASSED = {
    "outcome": "passed",
    "reason": "",
    "kind": None,
    "weights": "synthetic",
    "measurements": {"worst_token_cosine": 0.9995, "cases": 8},
    "evidence": {"complete": True},
}


def inexact() -> dict:
    """The gate gives no answer, for the size of the error alone."""
    reason = {"case": "set", "measure": "error_ratio", "outcome": "unknown", "text": "1.49 times", "rule": "1.5 times"}
    return {
        "outcome": "unknown",
        "reason": "error is 1.49 times that of an ideal DL16 device over all cases",
        "weights": "synthetic",
        "measurements": {"worst_token_cosine": 0.9999, "cases": 8},
        "evidence": {"verdict": {"reasons": [reason]}},
    }


STAGES = {stage.__name__: stage for stage in (inspect, capture, execute, diagnose, draft, verify)}


def answer(stage: str, spec_path: Path, out_path: Path) -> None:
    spec = json.loads(spec_path.read_text())
    with (Path(spec["data_dir"]) / "calls.log").open("a") as log:
        log.write(f"{stage} {spec['model']} {os.getpid()}\n")
    if f"pause-{stage}" in spec["model"]:
        time.sleep(PAUSE_S)
    out_path.write_text(json.dumps(STAGES[stage](spec)))


if __name__ == "__main__":
    answer(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
