"""The traps of capture and replay, each a document or a candidate that would pass without its check."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from pipeline.verification.replay import (
    DocumentRefused,
    check_case,
    examine,
    left_out,
    same_structure,
    validate_model,
)

Document = dict[str, Any]
Check = Callable[[Document], None]


@pytest.fixture
def honest(documents: Any) -> Document:
    return copy.deepcopy(documents["minilm-patched"][0])


@pytest.fixture
def check(minilm_tensors: Any) -> Check:
    return lambda document: validate_model(document, minilm_tensors)


def node_of(document: Document, op: str, part: str = "block") -> Document:
    """The first node of an operator in the first block or in the skeleton."""
    nodes = document["graphs"][0]["nodes"] if part == "block" else document["skeleton"]["nodes"]
    return next(n for n in nodes if n.get("op") == op)


def number_of(document: Document, node: Document) -> int:
    """The value number of a node of the skeleton."""
    before = len(document["inputs"]) + len(document["skeleton"]["parameters"])
    return before + next(i for i, n in enumerate(document["skeleton"]["nodes"]) if n is node)


def test_the_honest_document_is_accepted(honest: Document, check: Check) -> None:
    check(honest)


def test_code_in_a_keyword_name_is_refused_before_anything_is_built(
    honest: Document, check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    """fx prints keyword names into Python source: this one ran in the trusted process of the prototype."""
    node = node_of(honest, "aten.add.Tensor")
    node["kwargs"] = {"alpha=1); print('owned') or (x": 1}
    with pytest.raises(DocumentRefused, match="has no free argument"):
        check(honest)
    assert "owned" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("op", "args", "reason"),
    [
        ("aten.dropout.default", [{"ref": 0}, 0.5, True], "not allowed"),
        ("aten.rand.default", [[2]], "not allowed"),
        ("aten.empty.memory_format", [[2]], "not allowed"),
        ("builtins.eval", ["1"], "not allowed"),
        ("aten.add_.Tensor", [{"ref": 0}, 1.0], "not allowed"),
    ],
)
def test_operators_outside_the_dictionary_are_refused(
    op: str, args: list[Any], reason: str, honest: Document, check: Check
) -> None:
    """Dropout with train=True has the right shape and dtype: only the dictionary and the rules can see it."""
    honest["graphs"][0]["nodes"].append({"op": op, "args": args, "kwargs": {}, "out": ["float16", [2, 64, 384]]})
    with pytest.raises(DocumentRefused, match=reason):
        check(honest)


def test_dropout_inside_attention_is_refused(honest: Document, check: Check) -> None:
    node = node_of(honest, "aten.scaled_dot_product_attention.default")
    node["kwargs"]["dropout_p"] = 0.1
    node["args"] = node["args"][:4]
    with pytest.raises(DocumentRefused, match="dropout_p"):
        check(honest)


def test_a_literal_of_more_than_64_elements_is_refused(honest: Document, check: Check) -> None:
    literal = {"op": "literal", "args": [[0.5] * 65], "kwargs": {}, "out": ["float32", [65]]}
    honest["constants"]["nodes"].append(literal)
    with pytest.raises(DocumentRefused, match="literal of 65 elements"):
        check(honest)


def test_a_reference_in_many_small_literals_is_refused(honest: Document, check: Check) -> None:
    """The reference output embedded: 384 numbers in six literals, or as scalars of additions."""
    for part in range(6):
        data = [0.001 * (64 * part + i) for i in range(64)]
        honest["constants"]["nodes"].append({"op": "literal", "args": [data], "kwargs": {}, "out": ["float32", [64]]})
    with pytest.raises(DocumentRefused, match="distinct float literals"):
        check(honest)


def test_a_document_that_is_too_long_is_refused(honest: Document, check: Check) -> None:
    honest["inputs"][0]["name"] = "x" * (9 << 20)
    with pytest.raises(DocumentRefused, match="bytes"):
        check(honest)


def skip_a_layer(document: Document) -> None:
    """The second call's result is read from the first call's instead."""
    calls = [n for n in document["skeleton"]["nodes"] if "call" in n]
    items = [n for n in document["skeleton"]["nodes"] if n.get("op") == "getitem"]
    assert items[1]["args"][0]["ref"] == number_of(document, calls[1])
    items[1]["args"][0]["ref"] = number_of(document, calls[0])


def test_a_left_out_layer_is_named(honest: Document, check: Check, documents: Any) -> None:
    stock = documents["minilm-stock"][0]
    assert left_out(stock, honest) == set()
    skip_a_layer(honest)
    check(honest)
    missing = left_out(stock, honest)
    assert "encoder.layer.1.attention.self.query.weight" in missing
    assert all(name.startswith("encoder.layer.1.") for name in missing)


def test_a_left_out_weight_is_named(honest: Document, documents: Any) -> None:
    """A block that ignores its bias still takes it as a parameter: what counts is what the output reads."""
    linear = node_of(honest, "aten.linear.default")
    linear["args"] = linear["args"][:2]
    assert left_out(documents["minilm-stock"][0], honest) == {
        f"encoder.layer.{n}.attention.self.query.bias" for n in range(6)
    }


def test_a_matrix_product_on_the_host_is_refused(honest: Document, check: Check) -> None:
    """Everything on the host would be exact, and prove nothing about the device."""
    document = copy.deepcopy(honest)
    last = document["skeleton"]["nodes"][-1]
    width = last["out"][1]
    document["skeleton"]["nodes"].append(
        {"op": "aten.matmul.default", "args": [document["output"], {"ref": 0}], "kwargs": {}, "out": last["out"]}
    )
    document["skeleton"]["nodes"][-1]["args"][1] = document["output"]
    document["skeleton"]["nodes"][-1]["op"] = "aten.softmax.int"
    document["skeleton"]["nodes"][-1]["args"] = [document["output"], -1]
    document["output"] = {"ref": number_of(document, document["skeleton"]["nodes"][-1])}
    assert width[-1] == 384
    with pytest.raises(DocumentRefused, match="may not run on the host"):
        check(document)


def test_blocks_on_the_host_are_refused(documents: Any, check: Check) -> None:
    """The stock document runs wholly on the host; as a candidate's document it is refused."""
    with pytest.raises(DocumentRefused, match="reads a tensor of the host"):
        check(documents["minilm-stock"][0])


def test_device_operators_outside_blocks_are_counted(honest: Document, minilm_tensors: Any) -> None:
    facts = examine(honest, minilm_tensors)
    assert facts.outside["aten.embedding.default"] == 3
    assert facts.calls == 6


def test_the_wrong_dtype_of_capture_is_seen(documents: Any) -> None:
    """T5 clamps in fp16 only: a document captured in fp32 and cast later would hide the clamp's operators."""
    half, single = documents["t5-dtypes"]
    names = [{n["op"] for g in d["graphs"] for n in g["nodes"]} for d in (half, single)]
    assert "aten.clamp.Tensor" in names[0] or "aten.clamp.default" in names[0]
    assert "aten.isinf.default" not in names[1]
    check_case(half, 2, 64, "float16")
    with pytest.raises(DocumentRefused, match="the document is for"):
        check_case(single, 2, 64, "float16")


def test_a_block_that_widens_itself_is_refused(honest: Document, check: Check) -> None:
    """The document says fp16 and multiplies in fp32: the case it claims is not the one it runs."""
    honest["case"]["dtype"] = "bfloat16"
    with pytest.raises(DocumentRefused, match="float16 where the case runs in bfloat16"):
        check(honest)


@pytest.mark.parametrize("ref", [10**6, -1, True, "0"])
def test_references_to_no_earlier_value_are_refused(ref: Any, honest: Document, check: Check) -> None:
    node_of(honest, "aten.add.Tensor")["args"][0] = {"ref": ref}
    with pytest.raises(DocumentRefused, match=r"not to an earlier value|must be a reference"):
        check(honest)


def test_a_wrong_shape_is_refused(honest: Document, check: Check) -> None:
    node_of(honest, "aten.add.Tensor")["out"] = ["float16", [2, 64, 385]]
    with pytest.raises(DocumentRefused, match="the document says"):
        check(honest)


def test_huge_values_are_refused_without_being_made(honest: Document, check: Check) -> None:
    honest["skeleton"]["nodes"].append(
        {"op": "aten.arange.default", "args": [1 << 39], "kwargs": {}, "out": ["int64", [1 << 39]]}
    )
    with pytest.raises(DocumentRefused, match="above the limit"):
        check(honest)


def test_a_graph_that_calls_is_refused(honest: Document, check: Check) -> None:
    call = next(n for n in honest["skeleton"]["nodes"] if "call" in n)
    honest["graphs"][0]["nodes"].append(call)
    with pytest.raises(DocumentRefused, match="exactly the keys op"):
        check(honest)


@pytest.mark.parametrize("change", [{"version": 2}, {"version": True}, {"extra": 1}])
def test_another_outline_is_refused(change: Document, honest: Document, check: Check) -> None:
    with pytest.raises(DocumentRefused, match=r"version|exactly the keys"):
        check({**honest, **change})


@pytest.mark.parametrize("whole", [None, 3, [], {}, "{}", {"version": 1}])
def test_what_is_no_document_is_refused(whole: Any, check: Check) -> None:
    with pytest.raises(DocumentRefused):
        check(whole)


def test_a_branch_on_the_length_is_seen(documents: Any) -> None:
    first, _, third, _ = copy.deepcopy(documents["minilm-patched"])
    same_structure([first, third])
    node_of(third, "aten.gelu.default")["kwargs"] = {"approximate": "tanh"}
    with pytest.raises(DocumentRefused, match="differ in structure"):
        same_structure([first, third])


def test_every_part_of_a_document_may_be_garbage(honest: Document, check: Check) -> None:
    """No mutation of one JSON leaf raises anything but a refusal."""
    import random

    rng = random.Random(4)
    for _ in range(30):
        document = json.loads(json.dumps(honest))
        spoil(document, rng)
        try:
            check(document)
        except DocumentRefused:
            continue


def spoil(document: Any, rng: Any) -> None:
    """Replaces one value somewhere by something else."""
    at = document
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = rng.choice(keys)
        if not isinstance(at[key], dict | list) or not at[key] or rng.random() < 0.1:
            at[key] = rng.choice([None, -1, "x", [], {}, 1e400, [{"ref": 0}], {"dtype": []}, {"ref": {}}, True])
            return
        at = at[key]
