"""Every attack on a document is refused before anything is built, with the node and the reason."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from adapters.document import MAX_NODES, build, validate
from adapters.errors import DocumentRefused

X = {"ref": 0}


def one(op: Any, args: Any, **kwargs: Any) -> dict[str, Any]:
    """A document of one node."""
    node = {"op": op, "args": args} | ({"kwargs": kwargs} if kwargs else {})
    return {"version": 1, "nodes": [node], "output": {"ref": 1}}


NODES: dict[str, tuple[dict[str, Any], str]] = {
    "unknown op": (one("aten.matmul.default", [X, X]), "not allowed"),
    "dotted lookup": (one("torch.ops.aten.mul.Tensor", [X, X]), "not allowed"),
    "op is not text": (one(["aten.mul.Tensor"], [X, X]), "not allowed"),
    "random": (one("aten.bernoulli.default", [X]), "not allowed"),
    "random like": (one("aten.rand_like.default", [X]), "not allowed"),
    "dropout": (one("aten.dropout.default", [X, 0.5, True]), "not allowed"),
    "in place": (one("aten.add_.Tensor", [X, 1.0]), "not allowed"),
    "out variant": (one("aten.add.out", [X, X], out=X), "not allowed"),
    "cast": (one("aten.to.dtype", [X, 5]), "not allowed"),
    "move": (one("aten.to.device", [X, "cpu", 5]), "not allowed"),
    "shape": (one("aten.view.default", [X, [24]]), "not allowed"),
    "sum": (one("aten.sum.default", [X]), "not allowed"),
    "host op": (one("aten.item.default", [X]), "not allowed"),
    "literal tensor": (one("aten.mul.Tensor", [X, [1.0, 2.0]]), "wrong type"),
    "forward reference": (one("aten.mul.Tensor", [X, {"ref": 1}]), "earlier value"),
    "negative reference": (one("aten.mul.Tensor", [X, {"ref": -1}]), "earlier value"),
    "boolean reference": (one("aten.mul.Tensor", [X, {"ref": True}]), "reference is"),
    "text reference": (one("aten.mul.Tensor", [X, {"ref": "0"}]), "reference is"),
    "reference with more": (one("aten.mul.Tensor", [X, {"ref": 0, "x": 1}]), "reference is"),
    "literal as self": (one("aten.mul.Tensor", [1.0, X]), "must be a reference"),
    "no value read": (one("aten.pow.Scalar", [2.0, 3.0]), "reads no value"),
    "huge literal": (one("aten.mul.Tensor", [X, 1e30]), "literal"),
    "infinite literal": (one("aten.mul.Tensor", [X, float("inf")]), "literal"),
    "nan literal": (one("aten.mul.Tensor", [X, float("nan")]), "literal"),
    "tiny literal": (one("aten.mul.Tensor", [X, 1e-40]), "literal"),
    "huge int": (one("aten.pow.Tensor_Scalar", [X, 10**40]), "literal"),
    "boolean as number": (one("aten.mul.Tensor", [X, True]), "wrong type"),
    "text as number": (one("aten.mul.Tensor", [X, "2"]), "wrong type"),
    "code as text": (one("aten.gelu.default", [X], approximate="__import__('os')"), "must be one of"),
    "too many arguments": (one("aten.neg.default", [X, X]), "at most"),
    "too few arguments": (one("aten.mul.Tensor", [X]), "needs the argument"),
    "given twice": (one("aten.mul.Tensor", [X, X], other=X), "no free argument"),
    "args not a list": (one("aten.mul.Tensor", {"self": X}), "must be a list"),
    "mask as output": (one("aten.gt.Scalar", [X, 0.0]), "output is torch.bool"),
}


@pytest.mark.parametrize("name", NODES)
def test_node_is_refused(name: str) -> None:
    document, reason = NODES[name]
    with pytest.raises(DocumentRefused, match=reason):
        validate(copy.deepcopy(document))


def test_code_in_a_keyword_name_is_refused_and_never_runs(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    name = f"x=0), open({str(mark)!r}, 'w'), dict(y"
    with pytest.raises(DocumentRefused, match="no free argument") as refused:
        build(one("aten.mul.Tensor", [X, X], **{name: 1.0}))
    assert refused.value.node == 1
    assert not mark.exists()


FRAMES: dict[str, tuple[Any, str]] = {
    "not an object": ([], "exactly the keys"),
    "another key": ({**one("aten.neg.default", [X]), "code": "1"}, "exactly the keys"),
    "another version": ({**one("aten.neg.default", [X]), "version": 2}, "version"),
    "output ahead": ({**one("aten.neg.default", [X]), "output": {"ref": 2}}, "earlier value"),
    "output is the input": ({**one("aten.neg.default", [X]), "output": {"ref": 0}}, "output is the input"),
    "no list": ({**one("aten.neg.default", [X]), "nodes": "x"}, "list"),
    "a node with more": (
        {"version": 1, "nodes": [{"op": "aten.neg.default", "args": [X], "k": 1}], "output": X},
        "keys",
    ),
    "too many nodes": ({"version": 1, "nodes": [{}] * (MAX_NODES + 1), "output": X}, "at most"),
    "too large": ({**one("aten.neg.default", [X]), "nodes": [{"op": "a" * 70_000, "args": []}]}, "larger"),
    "not json": ({**one("aten.neg.default", [X]), "nodes": [{1, 2}]}, "not plain JSON"),
    "too many floats": (
        {"version": 1, "nodes": [{"op": "aten.mul.Tensor", "args": [X, 1.5]}] * 65, "output": {"ref": 65}},
        "float literals",
    ),
}


@pytest.mark.parametrize("name", FRAMES)
def test_frame_is_refused(name: str) -> None:
    document, reason = FRAMES[name]
    with pytest.raises(DocumentRefused, match=reason):
        validate(document)


def test_refusal_names_the_node() -> None:
    nodes = [{"op": "aten.neg.default", "args": [X]}, {"op": "aten.exec.default", "args": [X]}]
    with pytest.raises(DocumentRefused) as refused:
        validate({"version": 1, "nodes": nodes, "output": {"ref": 2}})
    assert (refused.value.node, refused.value.code) == (2, "document_refused")
