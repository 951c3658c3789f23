"""Library patches with wrong parameters: documents of a nearly right formula, patches where they do not belong."""

from __future__ import annotations

import math
from typing import Any

from pipeline.verification.selftest.entry import Cheat, Kind, Patches, Stage, library

Node = list[Any]
GELU_NEW: dict[int, Node] = {
    1: ["mul.Tensor", 0, 0],
    2: ["mul.Tensor", 1, 0],
    3: ["mul.Tensor", 2, 0.044715],
    4: ["add.Tensor", 0, 3],
    5: ["mul.Tensor", 4, math.sqrt(2 / math.pi)],
    6: ["tanh.default", 5],
    7: ["add.Tensor", 6, 1.0],
    8: ["mul.Tensor", 0, 0.5],
    9: ["mul.Tensor", 8, 7],
}
"""gelu_new without a power, as x·x·x: value k is the k-th row, value 0 the input, whole numbers are references."""

REFUSED = (Stage.CAPTURE, Stage.VALIDATION, Stage.EQUIVALENCE, Stage.ORACLE)
WRONG = r"not.equivalent|differ|claims exact|depends on another|cosine"
DOES_NOT_APPLY = r"P\d\d"


def document(nodes: dict[int, Node], output: int = 9) -> dict[str, Any]:
    """The operator document (`adapters.document`) of a table of nodes."""

    def written(node: Node) -> dict[str, Any]:
        op, *args = node
        return {"op": f"aten.{op}", "args": [{"ref": a} if isinstance(a, int) else a for a in args]}

    return {"version": 1, "nodes": [written(nodes[k]) for k in sorted(nodes)], "output": {"ref": output}}


def replacing(nodes: dict[int, Node], output: int = 9) -> Patches:
    """P01 with the document in place of the stock gelu_new."""
    kind = "transformers.activations.NewGELUActivation"
    return (library("P01", module_class=kind, document=document(nodes, output)),)


HONEST = replacing(GELU_NEW)


def _gelu(name: str, changed: dict[int, Node], output: int = 9, shows: str = "differs", says: str = WRONG) -> Cheat:
    cheat = replacing({**GELU_NEW, **changed}, output)
    return Cheat(name, Kind.PARAMETERS, "albert", cheat, HONEST, shows, REFUSED, says)


def _misplaced(name: str, cheat: Patches, honest: Patches, subject: str = "bert") -> Cheat:
    return Cheat(name, Kind.PARAMETERS, subject, cheat, honest, "refuses", REFUSED, DOES_NOT_APPLY)


CHEATS = (
    _gelu("P01: constant ten times too large", {3: ["mul.Tensor", 2, 0.44715]}),
    _gelu("P01: constant rounded to three digits", {3: ["mul.Tensor", 2, 0.0447]}),
    _gelu("P01: inner constant off by one in ten thousand", {5: ["mul.Tensor", 4, 0.7979]}),
    _gelu("P01: factor moved", {8: ["mul.Tensor", 0, 0.49]}),
    _gelu("P01: sign of the cubic term", {4: ["sub.Tensor", 0, 3]}),
    _gelu("P01: cubic term dropped", {5: ["mul.Tensor", 0, math.sqrt(2 / math.pi)]}),
    _gelu("P01: square in place of the cube", {2: ["abs.default", 1]}),
    _gelu("P01: |x| to the fourth in place of the cube", {2: ["mul.Tensor", 1, 1]}),
    _gelu("P01: sigmoid in place of tanh", {6: ["sigmoid.default", 5]}),
    _gelu("P01: erf variant", {9: ["gelu.default", 0]}),
    _gelu("P01: right only up to a bound", {6: ["clamp.default", 5, -3.0, 3.0]}),
    _gelu("P01: identity", {9: ["mul.Tensor", 0, 1.0]}),
    _gelu("P01: zero", {9: ["mul.Tensor", 0, 0.0]}),
    _gelu("P01: an infinity where the stock module has none", {9: ["div.Tensor", 7, 0]}),
    Cheat(
        "P01: the original operation, called again",
        Kind.PARAMETERS,
        "albert",
        replacing({**GELU_NEW, 1: ["pow.Tensor_Scalar", 0, 3.0], 2: ["mul.Tensor", 1, 1.0]}),
        HONEST,
        "same",
        (Stage.DEVICE, Stage.GATE),
        r"pow|fallback|cosine|error|E-08|unsupported",
    ),
    _misplaced(
        "P20: heads that are not there",
        (library("P20", head_dim=16, padded_head_dim=64),),
        (library("P20", head_dim=32, padded_head_dim=64),),
    ),
    _misplaced(
        "P20: padded to a smaller size",
        (library("P20", head_dim=32, padded_head_dim=16),),
        (library("P20", head_dim=32, padded_head_dim=128),),
    ),
    _misplaced(
        "P20: ends padded where halves are rotated",
        (library("P20", head_dim=32, padded_head_dim=64),),
        (library("P56", dtype="float16"),),
        "qwen3",
    ),
    _misplaced("P40: a fill that overflows", (library("P40", fill="finfo_min"),), (library("P40"),)),
    _misplaced("P40: a full mask where layers have windows", (library("P40"),), (library("P54"),), "modernbert"),
    _misplaced("P47: a relative bias that is not there", (library("P47"),), (library("P32"),)),
    _misplaced("P63: an unknown side", (library("P63", side="both"),), (library("P63", side="right"),)),
    _misplaced("P63: a multiple of nothing", (library("P63", multiple=0),), (library("P63", multiple=64),)),
    _misplaced("P80: pooling on the device", (library("P80", placement="device"),), (library("P80"),)),
    _misplaced("P56: a dtype no one knows", (library("P56", dtype="float8"),), (library("P56", dtype="float16"),)),
    _misplaced("an unknown pattern", (library("P999"),), (library("P61"),)),
    _misplaced("a parameter that no one reads", (library("P61", threshold=0.5),), (library("P61"),)),
)
