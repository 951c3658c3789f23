"""What a block may be handed, and in which width a placed document may compute: small documents written by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pipeline.verification.replay import DocumentRefused, validate_model

STOCK = {"table": torch.zeros(5, 3)}
HALF, IDS = ["float16", [1, 2, 3]], ["int64", [1, 2]]


def node(op: str, *args: Any, out: Any, **kwargs: Any) -> dict[str, Any]:
    return {"op": f"aten.{op}", "args": list(args), "kwargs": kwargs, "out": out}


def ref(number: int) -> dict[str, int]:
    return {"ref": number}


def document(block: list[dict[str, Any]], output: str = "float32") -> dict[str, Any]:
    """Embeds on the host, moves, calls one block with the ids beside the stream, and brings the result back."""
    moved = {"device": {"device": "spyre"}, "dtype": {"dtype": "float16"}, "layout": {"layout": "strided"}}
    back = {"device": {"device": "cpu"}, "dtype": {"dtype": output}, "layout": {"layout": "strided"}}
    wide = ["float32", [1, 2, 3]]
    skeleton = [
        node("embedding.default", ref(1), ref(0), out=wide),
        node("to.dtype_layout", ref(2), out=HALF, **moved),
        {"call": 0, "parameters": [], "args": [ref(3), ref(0)], "out": [HALF]},
        {"op": "getitem", "args": [ref(4), 0], "kwargs": {}, "out": HALF},
        node("to.dtype_layout", ref(5), out=[output, [1, 2, 3]], **back),
    ]
    return {
        "version": 1,
        "case": {"batch": 1, "length": 2, "dtype": "float16"},
        "inputs": [{"name": "input_ids", "out": IDS}],
        "constants": {
            "stock": [{"name": "table", "out": ["float32", [5, 3]]}],
            "nodes": [],
            "values": [ref(0)],
        },
        "graphs": [{"inputs": [HALF, IDS], "parameters": [], "nodes": block, "outputs": [ref(1 + len(block))]}],
        "skeleton": {"parameters": [0], "nodes": skeleton},
        "output": ref(6),
    }


DOUBLED = [node("mul.Tensor", ref(0), 2.0, out=HALF)]


def test_a_block_may_be_handed_a_host_tensor_that_it_never_reads() -> None:
    validate_model(document(DOUBLED), STOCK)


def test_a_block_that_reads_a_host_tensor_is_refused() -> None:
    reads = [
        node("unsqueeze.default", ref(1), -1, out=["int64", [1, 2, 1]]),
        node("mul.Tensor", ref(0), ref(2), out=HALF),
    ]
    with pytest.raises(DocumentRefused, match="reads a tensor of the host"):
        validate_model(document(reads), STOCK)


def test_a_block_that_computes_in_fp64_is_refused() -> None:
    wide = [
        node("to.dtype", ref(0), {"dtype": "float64"}, out=["float64", [1, 2, 3]]),
        node("mul.Tensor", ref(2), 2.0, out=["float64", [1, 2, 3]]),
        node("to.dtype", ref(3), {"dtype": "float16"}, out=HALF),
    ]
    with pytest.raises(DocumentRefused, match="in float64"):
        validate_model(document(wide), STOCK)


def test_an_answer_of_another_width_is_refused() -> None:
    with pytest.raises(DocumentRefused, match="output is float64"):
        validate_model(document(DOUBLED, output="float64"), STOCK)
