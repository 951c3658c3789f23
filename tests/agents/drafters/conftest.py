"""Diagnoses, contexts and stock documents for the drafters' tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agents.drafters.llm import MemoryLedger
from agents.types import Candidate, Diagnosis, DraftContext, Failure, FailureKind, PatternUse

GELU_NEW = "transformers.activations.NewGELUActivation"
POW = "aten.pow.Tensor_Scalar"

Diagnose = Callable[..., Diagnosis]


def make_diagnosis(*patterns: tuple[str, dict[str, Any]], op: str = "aten.view.default", **fields: Any) -> Diagnosis:
    no_patch, evidence = fields.pop("no_patch", None), fields.pop("evidence", {})
    values: dict[str, Any] = {
        "kind": FailureKind.LAYOUT,
        "source": "modeling.py:10",
        "module": "encoder.layer.*",
        "message": "Spyre backend does not support: it",
        **fields,
    }
    uses = tuple(PatternUse(name, parameters) for name, parameters in patterns)
    return Diagnosis(Failure(op=op, **values), uses, evidence, no_patch)


@pytest.fixture
def diagnose() -> Diagnose:
    """Makes a diagnosis from (pattern, parameters) pairs and fields of its failure."""
    return make_diagnosis


@pytest.fixture
def pow_cause() -> Diagnosis:
    """gelu_new's pow(x, 3) giving wrong values."""
    return make_diagnosis(
        ("P01", {"module_class": GELU_NEW}),
        op=POW,
        kind=FailureKind.WRONG_VALUES,
        source="activations.py:57",
        scalars=(3.0,),
    )


@pytest.fixture
def minilm_causes() -> list[Diagnosis]:
    """The causes of a BERT-like checkpoint with heads of 32."""
    return [
        make_diagnosis(("P56", {"dtype": "float16"}), op="aten.mm.default", kind=FailureKind.UNSUPPORTED_DTYPE),
        make_diagnosis(("P80", {"placement": "host"}), op="aten.clamp.default", place="outside"),
        make_diagnosis(("P20", {"head_dim": 32, "padded_head_dim": 64})),
        make_diagnosis(("P54", {}), ("P60", {}), op="sdpa", kind=FailureKind.WRONG_VALUES),
        make_diagnosis(("P61", {}), op="block border", kind=FailureKind.WRONG_VALUES),
        make_diagnosis(("P63", {"multiple": 64, "side": "right"}), op="sdpa", kind=FailureKind.WRONG_VALUES),
    ]


def gelu_document(power: list[dict[str, Any]]) -> dict[str, Any]:
    """gelu_new with the given nodes in place of pow(x, 3); they are the values 2, 3, ... and read value 0."""
    last = 1 + len(power)
    nodes = [
        {"op": "aten.mul.Tensor", "args": [{"ref": 0}, 0.5]},
        *power,
        {"op": "aten.mul.Tensor", "args": [{"ref": last}, 0.044715]},
        {"op": "aten.add.Tensor", "args": [{"ref": 0}, {"ref": last + 1}]},
        {"op": "aten.mul.Tensor", "args": [{"ref": last + 2}, 0.7978845608028654]},
        {"op": "aten.tanh.default", "args": [{"ref": last + 3}]},
        {"op": "aten.add.Tensor", "args": [{"ref": last + 4}, 1.0]},
        {"op": "aten.mul.Tensor", "args": [{"ref": 1}, {"ref": last + 5}]},
    ]
    return {"version": 1, "nodes": nodes, "output": {"ref": len(nodes)}}


def mul(left: int, right: int) -> dict[str, Any]:
    return {"op": "aten.mul.Tensor", "args": [{"ref": left}, {"ref": right}]}


STOCK = gelu_document([{"op": POW, "args": [{"ref": 0}, 3.0]}])
CUBE = gelu_document([mul(0, 0), mul(0, 2)])
ABSOLUTE_CUBE = gelu_document([{"op": "aten.abs.default", "args": [{"ref": 0}]}, mul(2, 2), mul(3, 2)])


def fake_capture(code: str, target: dict[str, Any]) -> dict[str, Any]:
    """Stands in for the sandbox: recognises the scripted answers by their text and runs nothing."""
    return ABSOLUTE_CUBE if "torch.abs" in code else CUBE


def fake_test(candidate: Candidate) -> dict[str, Any]:
    """Stands in for the drafter's test run. It tells more than an agent may see."""
    document = next(p.parameters["document"] for p in candidate.patches if p.pattern == "P01")
    if document == CUBE:
        return {"passed": True, "kind": None, "op": None, "error": 1e-9, "inputs": "SECRET"}
    return {"passed": False, "kind": "wrong_values", "op": "aten.tanh.default", "error": 0.6321, "inputs": "SECRET"}


class Trajectory:
    """Keeps the steps in memory."""

    earlier: tuple[dict[str, Any], ...] = ()

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self.places: list[str] = []

    def open(self, place: str) -> Trajectory:
        self.places.append(place)
        return self

    def __call__(self, step: dict[str, Any]) -> str:
        self.steps.append(step)
        return "trajectory-1"

    @property
    def text(self) -> str:
        return repr(self.steps)


@pytest.fixture
def trajectory() -> Trajectory:
    return Trajectory()


@pytest.fixture
def context(trajectory: Trajectory) -> DraftContext:
    """A context with a ledger, a trajectory store and stand-ins for the sandbox and the test run."""
    return DraftContext(
        family="albert",
        profile="profile-2026-08",
        dtype="float16",
        capture=fake_capture,
        test=fake_test,
        trajectories=trajectory.open,
        budget=MemoryLedger(1.0),
    )
