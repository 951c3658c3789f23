"""One draft as its process makes it: `kill_driver.py RUN_ID URL` writes the digests. Stand-ins for the sandbox."""

from __future__ import annotations

import json
import sys
from typing import Any

from agents.drafters import draft_with
from agents.drafters.llm import LlmDrafter, LlmSettings
from agents.types import Candidate, Diagnosis, DraftContext, Failure, FailureKind, PatternUse
from pipeline.review.drafting import Budgets, StoredBudget, StoredTrajectories

STOCK = {
    "version": 1,
    "nodes": [{"op": "aten.pow.Tensor_Scalar", "args": [{"ref": 0}, 3.0]}],
    "output": {"ref": 1},
}
"""Stands for the stock module, so that nobody has to import it."""
POW = Diagnosis(
    Failure(
        FailureKind.WRONG_VALUES,
        "aten.pow.Tensor_Scalar",
        "activations.py:57",
        "m.act",
        "values differ",
        scalars=(3.0,),
    ),
    (PatternUse("P01", {"module_class": "transformers.activations.NewGELUActivation"}),),
    {"stock_document": STOCK},
)


def document(code: str, target: dict[str, Any]) -> dict[str, Any]:
    """Of a product, or of an absolute value: what the two scripted answers differ in."""
    first = {"op": "aten.abs.default", "args": [{"ref": 0}]}
    nodes = [first] if "torch.abs" in code else [{"op": "aten.mul.Tensor", "args": [{"ref": 0}, {"ref": 0}]}]
    return {"version": 1, "nodes": nodes, "output": {"ref": 1}}


def judged(candidate: Candidate) -> dict[str, Any]:
    """The absolute value is wrong."""
    return {
        "passed": "aten.abs" not in json.dumps(candidate.to_dict()),
        "kind": "wrong_values",
        "op": "x",
        "error": 0.6,
    }


def drafted(run_id: int, url: str) -> list[str]:
    """The digests of what is drafted."""
    context = DraftContext(
        "bert", "profile-2026-08", "float16", capture=document, test=judged, budget=StoredBudget(Budgets(1.0), run_id),
        trajectories=StoredTrajectories(run_id, "scripted"),
    )  # fmt: skip
    drafter = LlmDrafter(LlmSettings(base_url=url, model="scripted", daily_budget_usd=1.0))
    return [candidate.digest for candidate in draft_with("llm", [POW], context, drafter).candidates]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(drafted(int(sys.argv[1]), sys.argv[2])))
