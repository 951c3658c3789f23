"""One case of the diagnosis benchmark, in a process that has not chosen its profile yet.

`python -m benchmarks.diagnosis_child CASE.json OUT.json` is one by hand. CASE: `family`, `faults` (as `Fault.to_dict`
writes them) and `reproducers`. OUT: `truth` (what the simulator says the faults do to this model), `causes` (what the
diagnosis says; reproducers not run yet), `curves`, `seconds` (of the processor).
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.diagnosis_faults import PROFILE, fault_from, install
from benchmarks.diagnosis_triggers import VARIANTS, inputs_of, truth_of


def run_case(case: dict[str, Any], model: Any) -> dict[str, Any]:
    """Diagnose the family's model with the faults in place.

    `truth` in the case is what the asker knows beforehand of faults that no operation shows.
    """
    from pipeline.execution.diagnose_run import causes
    from pipeline.execution.diagnosis_report import shown
    from pipeline.execution.embedder import StockEmbedder

    install([fault_from(f) for f in case["faults"]])
    started = time.process_time()
    embedder = StockEmbedder(model, "mean", False)
    reports = reports_of(embedder, case)
    truth = case.get("truth") or truth_of(reports)
    if case["faults"] and not truth:
        return {"truth": [], "causes": [], "curves": {}, "seconds": 0.0}
    answer = causes(embedder, reports, _setting(case) if case["reproducers"] else None)
    seconds = round(time.process_time() - started, 1)
    return {"truth": truth, "causes": [shown(d) for d in answer["diagnoses"]], "curves": answer["curves"],
            "seconds": seconds}  # fmt: skip


def reports_of(embedder: Any, case: dict[str, Any]) -> list[dict[str, Any]]:
    """Capability reports in fp16 up to the first kind of input that the faults trigger on."""
    import torch

    import sim_backend
    from sim_backend.device import start

    start()
    inputs = inputs_of(embedder.model)
    reports: list[dict[str, Any]] = []
    for variant in VARIANTS:
        reports.append(sim_backend.capability(embedder, inputs[variant], dtype=torch.float16).to_dict())
        if truth_of(reports) or not case["faults"]:
            break
    return reports


MEASURED_ON = ("whole", "ragged", "single")


def error_of(case: dict[str, Any], model: Any) -> float:
    """How far the whole model is off with the faults in place: relative error of the real tokens, the worst input's.

    The product's own run by block, without any adapter; nothing of the diagnosis takes part.
    """
    import torch

    import adapters

    install([fault_from(f) for f in case["faults"]])
    inputs = {name: given for name, given in inputs_of(model).items() if name in MEASURED_ON}
    with torch.no_grad():
        wanted = {name: model(**given).last_hidden_state for name, given in inputs.items()}
        with adapters.adapt(model, patches=[], device="spyre", dtype=torch.float16):
            got = {name: model(**given).last_hidden_state for name, given in inputs.items()}
    errors = []
    for name, given in inputs.items():
        real = given["attention_mask"].bool()
        off = got[name][real].float() - wanted[name][real]
        errors.append(float(off.norm() / wanted[name][real].norm()))
    return max(errors, key=lambda e: e if e == e else float("inf"))


def _setting(case: dict[str, Any]) -> Any:
    from pipeline.diagnosis.reproducer.script import Setting

    return Setting(f"{case['family']} of two layers", PROFILE)


def main() -> None:
    """Run a case."""
    from benchmarks.diagnosis_families import build

    case = json.loads(Path(sys.argv[1]).read_text())
    Path(sys.argv[2]).write_text(json.dumps(run_case(case, build(case["family"]))))


if __name__ == "__main__":
    main()
