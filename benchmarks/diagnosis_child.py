"""One case of the diagnosis benchmark, in a process that has not chosen its profile yet.

`python -m benchmarks.diagnosis_child CASE.json OUT.json` is one by hand. CASE: `family`, `faults` (as `Fault.to_dict`
writes them), `folder` and `reproducers`. OUT: `truth` (what the simulator says the faults do to this model), `causes`
(what the diagnosis says, reproducers checked), `curves`, `seconds` (of the processor). `--run CASE.json SCRIPT` runs a
reproducer with the faults.
"""

from __future__ import annotations

import json
import runpy
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.diagnosis_faults import PROFILE, fault_from, install


def run_case(case: dict[str, Any], case_path: str, model: Any) -> dict[str, Any]:
    """Diagnose the family's model with the faults in place."""
    from pipeline.execution.diagnose_run import causes
    from pipeline.execution.embedder import StockEmbedder

    install([fault_from(f) for f in case["faults"]])
    started = time.process_time()
    embedder = StockEmbedder(model, "mean", False)
    reports = reports_of(embedder, case)
    if not may_trigger(case, truth_of(reports)):
        return {"truth": [], "causes": [], "curves": {}, "seconds": 0.0}
    answer = causes(embedder, reports, _setting(case) if case["reproducers"] else None)
    seconds = time.process_time() - started
    found = [_checked(d, n, case, case_path) for n, d in enumerate(answer["diagnoses"])]
    return {"truth": truth_of(reports), "causes": found, "curves": answer["curves"], "seconds": round(seconds, 1)}


VARIANTS = ("ragged", "whole", "alone")
"""Kinds of input, the one that most faults trigger on first."""


def reports_of(embedder: Any, case: dict[str, Any]) -> list[dict[str, Any]]:
    """Capability reports in fp16 up to the first kind of input that the faults trigger on."""
    import torch

    import sim_backend
    from pipeline.execution.diagnose_run import input_variants
    from sim_backend.device import start

    start()
    inputs = input_variants(embedder.model.config.get_text_config().vocab_size)
    reports: list[dict[str, Any]] = []
    for variant in VARIANTS:
        reports.append(sim_backend.capability(embedder, inputs[variant], dtype=torch.float16).to_dict())
        if may_trigger(case, truth_of(reports)):
            break
    return reports


def may_trigger(case: dict[str, Any], truth: list[dict[str, str]]) -> bool:
    """False if the simulator says that no operation meets the faults; borders and drift are no operation's."""
    unseen = any({"border", "drift"} & set(f["conditions"]) for f in case["faults"])
    return unseen or not case["faults"] or any(t["kind"] != "cpu_fallback" for t in truth)


def truth_of(reports: list[dict[str, Any]]) -> list[dict[str, str]]:
    """What the simulator knows: every operation that is refused or known to come out wrong, each once."""
    found = {(f["op"], f["kind"], f["place"]) for r in reports for group in ("failures", "predicted") for f in r[group]}
    return [{"op": op, "kind": kind, "place": place} for op, kind, place in sorted(found)]


def _setting(case: dict[str, Any]) -> Any:
    from pipeline.diagnosis.reproducer.script import Setting

    return Setting(f"{case['family']} of two layers", PROFILE)


def _checked(diagnosis: dict[str, Any], number: int, case: dict[str, Any], case_path: str) -> dict[str, Any]:
    from pipeline.execution.diagnosis_report import shown
    from pipeline.execution.reproduce import verified

    cause = shown(diagnosis)
    if cause["reproducer"] is not None:
        launcher = (sys.executable, "-m", "benchmarks.diagnosis_child", "--run", case_path)
        cause["reproducer"] = verified(cause["reproducer"], Path(case["folder"]), f"r{number}", launcher)
    return cause


def main() -> None:
    """Run a case, or a script with a case's faults."""
    if sys.argv[1] == "--run":
        case = json.loads(Path(sys.argv[2]).read_text())
        install([fault_from(f) for f in case["faults"]])
        sys.argv = sys.argv[3:]
        runpy.run_path(sys.argv[0], run_name="__main__")
        return
    from benchmarks.diagnosis_families import build

    case = json.loads(Path(sys.argv[1]).read_text())
    Path(sys.argv[2]).write_text(json.dumps(run_case(case, sys.argv[1], build(case["family"]))))


if __name__ == "__main__":
    main()
