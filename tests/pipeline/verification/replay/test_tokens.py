"""Token ids are looked up; a document that compares them has a back door unless stock compares them too."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pipeline.verification.replay.tokens import FLOAT, INDEX, LITERAL_TABLE, strange_uses_of_tokens, uses_of_tokens

IDS, ROWS = ["int64", [1, 2]], ["float32", [1, 2, 3]]


def node(op: str, *args: Any, out: Any, **kwargs: Any) -> dict[str, Any]:
    return {"op": f"aten.{op}", "args": list(args), "kwargs": kwargs, "out": out}


def ref(number: int) -> dict[str, int]:
    return {"ref": number}


def document(*more: dict[str, Any]) -> dict[str, Any]:
    """Value 0 are the ids, 1 and 2 a stock and a literal table, 3 the rows looked up, then `more`."""
    literal = {"op": "literal", "args": [[2.0, 1.0]], "kwargs": {}, "out": ["float32", [2, 1]]}
    return {
        "inputs": [{"name": "input_ids", "out": IDS}],
        "constants": {
            "stock": [{"name": "table", "out": ["float32", [9, 3]]}],
            "nodes": [literal],
            "values": [ref(0), ref(1)],
        },
        "graphs": [],
        "skeleton": {"parameters": [0, 1], "nodes": [node("embedding.default", ref(1), ref(0), out=ROWS), *more]},
        "output": ref(3 + len(more)),
    }


COMPARED = node("eq.Scalar", ref(0), 7, out=["bool", [1, 2]])
NUMBERED = node("to.dtype", ref(4), {"dtype": "int64"}, out=IDS)


def test_ids_that_are_looked_up_are_no_use_of_their_numbers() -> None:
    padded = node("constant_pad_nd.default", ref(0), [0, 2], out=["int64", [1, 4]])
    assert uses_of_tokens(document(padded, node("embedding.default", ref(1), ref(4), out=ROWS))) == set()


@pytest.mark.parametrize(
    ("more", "becomes"),
    [
        ((COMPARED, node("where.ScalarSelf", ref(4), 2.0, ref(3), out=ROWS)), FLOAT),
        ((COMPARED, NUMBERED, node("embedding.default", ref(1), ref(5), out=ROWS)), INDEX),
        ((node("embedding.default", ref(2), ref(0), out=ROWS),), LITERAL_TABLE),
        ((node("to.dtype", ref(0), {"dtype": "float32"}, out=["float32", [1, 2]]),), FLOAT),
    ],
)
def test_ids_that_are_compared_or_become_numbers_are_found(more: tuple[dict[str, Any], ...], becomes: str) -> None:
    assert becomes in uses_of_tokens(document(*more))
    assert becomes in strange_uses_of_tokens(document(), document(*more))


def test_what_stock_does_a_patch_may_do() -> None:
    counts = document(COMPARED, NUMBERED, node("embedding.default", ref(1), ref(5), out=ROWS))
    assert strange_uses_of_tokens(counts, copy.deepcopy(counts)) == set()
