"""A stage's child that really drafts: the scripted endpoint, ledger and stored conversations; a price for each call.

All other stages are those of the fake child. `<data dir>/endpoints.json` says which endpoint a model's drafts ask. With
`sandboxed` in the model's name code is captured in the real sandbox, and the drafter's own test compares its document
with the stock formula; otherwise the stand-ins of `kill_driver.py` do, in milliseconds.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

FAKE = runpy.run_path(str(Path(__file__).parents[1] / "pipeline" / "work" / "fake_child.py"))
STAND_INS = runpy.run_path(str(Path(__file__).parents[1] / "pipeline" / "drafting" / "kill_driver.py"))
GELU_NEW = "transformers.activations.NewGELUActivation"
BUDGET_USD = 1.0
NODES = [
    ("aten.pow.Tensor_Scalar", {"ref": 0}, 3.0),
    ("aten.mul.Tensor", {"ref": 1}, 0.044715),
    ("aten.add.Tensor", {"ref": 0}, {"ref": 2}),
    ("aten.mul.Tensor", {"ref": 3}, 0.7978845608028654),
    ("aten.tanh.default", {"ref": 4}),
    ("aten.add.Tensor", {"ref": 5}, 1.0),
    ("aten.mul.Tensor", {"ref": 0}, 0.5),
    ("aten.mul.Tensor", {"ref": 7}, {"ref": 6}),
]
STOCK = {"version": 1, "nodes": [{"op": op, "args": list(args)} for op, *args in NODES], "output": {"ref": len(NODES)}}


def tested(candidate: Any, /) -> dict[str, Any]:
    """Whether the drafted document is the stock formula."""
    import torch

    from adapters.document import build

    x = torch.linspace(-8, 8, 2_001, dtype=torch.float64)
    document = next(p.parameters["document"] for p in candidate.patches if p.model)
    error = float((build(document).double()(x) - build(STOCK).double()(x)).abs().max())
    return {"passed": error < 1e-9, "kind": None if error < 1e-9 else "wrong_values", "op": "P01", "error": error}


def draft(spec: dict[str, Any]) -> dict[str, Any]:
    """OUT of the stage, as the real one makes it."""
    from agents.drafters import draft_with
    from agents.drafters.llm import LlmDrafter, LlmSettings, Price
    from agents.drafters.llm import model as asked
    from agents.drafters.llm.settings import Limits
    from agents.types import Diagnosis, DraftContext, Failure, FailureKind, PatternUse
    from pipeline.drafting.trials import capture_validated
    from pipeline.review.drafting import Budgets, StoredBudget, StoredTrajectories

    asked.price_of = lambda name, settings: Price(1.0, 2.0)
    failure = Failure(FailureKind.WRONG_VALUES, "aten.pow.Tensor_Scalar", "activations.py:57", "m.act", "differ")
    cause = Diagnosis(failure, (PatternUse("P01", {"module_class": GELU_NEW}),), {"stock_document": STOCK})
    context = DraftContext(
        spec["family"], spec["profile"], "float16",
        capture=capture_validated if "sandboxed" in spec["model"] else STAND_INS["document"],
        test=tested if "sandboxed" in spec["model"] else STAND_INS["judged"],
        rejected=dict(spec["rejected"]), submissions_used=dict(spec["submissions_used"]),
        budget=StoredBudget(Budgets(BUDGET_USD), spec["run_id"]),
        trajectories=StoredTrajectories(spec["run_id"], "scripted"),
    )  # fmt: skip
    url = json.loads((Path(spec["data_dir"]) / "endpoints.json").read_text())[spec["model"]]
    limits = Limits(call_seconds=4.0 if "slow" in spec["model"] else 20.0)
    drafter = LlmDrafter(LlmSettings(url, None, "scripted", BUDGET_USD, limits=limits, reviewer=False, retries=0))
    outcome = draft_with("llm", [cause], context, drafter)
    return {
        "outcome": "passed" if outcome.candidates else "failed",
        "reason": "; ".join(outcome.notes),
        "failures": [] if outcome.candidates else [FAKE["FAILURE"]],
        "candidates": [candidate.to_dict() for candidate in outcome.candidates],
    }


if __name__ == "__main__":
    FAKE["STAGES"]["draft"] = draft
    FAKE["answer"](sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
