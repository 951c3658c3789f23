"""Replay equals the model run directly, bit for bit: on the CPU, and compiled by block on the device."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch

import adapters
from pipeline.verification.replay import (
    Blocks,
    DocumentRefused,
    Examiner,
    ModelReplay,
    Precision,
    examine,
    left_out,
    reachable,
    same_structure,
)

FAMILIES = ("minilm", "albert", "modernbert", "t5", "qwen3")
PATCHED = ("minilm", "albert")


@pytest.mark.parametrize("name", FAMILIES)
def test_stock_documents_replay_stock_bit_for_bit(
    name: str, documents: Any, model_of: Any, tensors_of: Any, batch: Any
) -> None:
    model = model_of(name)
    tensors = tensors_of(model)
    for document in documents[f"{name}-stock"]:
        examine(document, tensors, placed=False)
        inputs = batch(document["case"]["batch"], document["case"]["length"])
        with torch.no_grad():
            expected = model(**inputs).last_hidden_state
        assert torch.equal(ModelReplay(document, tensors).run(inputs), expected)


def spoilt(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The document with one thing wrong in each of its sections."""
    for path, key, value in (
        (("constants", "values", 0), "ref", 10_000),
        (("graphs", 0, "nodes", 0), "op", "aten.bernoulli.p"),
        (("graphs", 0, "nodes", -1), "out", ["float16", [1]]),
        (("skeleton", "nodes", -1), "args", []),
    ):
        copy = json.loads(json.dumps(document))
        place = copy
        for step in path:
            place = place[step]
        place[key] = value
        yield copy


@pytest.mark.parametrize("name", ["minilm", "albert"])
def test_equal_sections_examined_once_give_the_same_answer(
    name: str, documents: Any, model_of: Any, tensors_of: Any
) -> None:
    """What an Examiner has seen before changes neither what it says of a document nor what it refuses."""
    tensors = tensors_of(model_of(name))
    warm = Examiner(tensors)
    patched = documents[f"{name}-patched"]
    for _ in range(2):
        assert [warm.examine(d) for d in patched] == [examine(d, tensors) for d in patched]
    for document in patched:
        for wrong in spoilt(document):
            said = []
            for examiner in (warm, Examiner(tensors)):
                with pytest.raises(DocumentRefused) as refused:
                    examiner.examine(wrong)
                said.append(str(refused.value))
            assert said[0] == said[1]
    assert [warm.examine(d) for d in patched] == [examine(d, tensors) for d in patched]


@pytest.mark.parametrize("device", ["cpu", "spyre"])
@pytest.mark.parametrize("name", PATCHED)
def test_patched_documents_replay_the_patched_model_bit_for_bit(
    name: str, device: str, documents: Any, families: ModuleType, model_of: Any, tensors_of: Any, batch: Any
) -> None:
    compiled = device != "cpu"
    model, stock = model_of(name), model_of(name)
    tensors, blocks = tensors_of(stock), Blocks()
    with adapters.adapt(model, patches=families.PATCHES[name](), device=device, compile=compiled):
        for document in documents[f"{name}-patched"]:
            facts = examine(document, tensors)
            inputs = batch(document["case"]["batch"], document["case"]["length"])
            with torch.no_grad():
                expected = model(**inputs).last_hidden_state
            replay = ModelReplay(document, tensors, blocks=blocks)
            assert torch.equal(replay.run(inputs, device, compiled), expected)
            assert replay.block_calls == facts.calls


@pytest.mark.parametrize("name", PATCHED)
def test_in_fp64_the_patched_document_is_the_stock_one(
    name: str, documents: Any, model_of: Any, tensors_of: Any, batch: Any
) -> None:
    tensors = tensors_of(model_of(name))
    for stock, patched in zip(documents[f"{name}-stock"], documents[f"{name}-patched"], strict=True):
        inputs = batch(stock["case"]["batch"], stock["case"]["length"])
        outputs = [ModelReplay(d, tensors, Precision.FP64).run(inputs) for d in (stock, patched)]
        assert all(o.dtype == torch.float64 for o in outputs)
        real = inputs["attention_mask"].bool()
        difference = (outputs[0] - outputs[1])[real].abs().max() / outputs[0].abs().max()
        assert difference < 1e-13


@pytest.mark.parametrize("name", ["modernbert", "t5", "qwen3"])
def test_the_fp64_map_leaves_no_fp32_island(
    name: str, documents: Any, model_of: Any, tensors_of: Any, batch: Any
) -> None:
    """`model.double()` keeps `.float()` inside: errors of 1e-6. The map gives what fp64 gives: within 1e-4 of fp32
    and equal when the weights are multiplied into fp64 first."""
    tensors = tensors_of(model_of(name))
    document = documents[f"{name}-stock"][0]
    inputs = batch(2, 64)
    wide = ModelReplay(document, tensors, Precision.FP64).run(inputs)
    narrow = ModelReplay(document, tensors).run(inputs)
    assert wide.dtype == torch.float64
    assert 0 < float((wide - narrow).abs().max()) < 1e-3 * float(narrow.abs().max())


@pytest.mark.parametrize("name", PATCHED)
def test_all_cases_have_one_structure(name: str, documents: Any) -> None:
    """One is as long as ALBERT's table of positions, which is then not sliced; one is a batch of one, cropped without a
    copy."""
    same_structure(documents[f"{name}-patched"])


def test_reachable_names_what_the_output_rests_on(documents: Any, model_of: Any, tensors_of: Any) -> None:
    names = set(tensors_of(model_of("minilm")))
    assert names - reachable(documents["minilm-stock"][0]) == {"pooler.dense.weight", "pooler.dense.bias"}


@pytest.mark.parametrize("name", PATCHED)
def test_patches_leave_no_weight_out(name: str, documents: Any) -> None:
    assert left_out(documents[f"{name}-stock"][0], documents[f"{name}-patched"][0]) == set()


def test_identical_blocks_are_one_graph(documents: Any) -> None:
    counts = {n: len(documents[f"{n}-stock"][0]["graphs"]) for n in FAMILIES}
    assert counts == {"minilm": 1, "albert": 1, "modernbert": 2, "t5": 2, "qwen3": 1}


def test_weights_are_not_touched(documents: Any, model_of: Any, tensors_of: Any, batch: Callable[..., Any]) -> None:
    tensors = tensors_of(model_of("minilm"))
    before = {n: (t._version, t.clone()) for n, t in tensors.items()}
    ModelReplay(documents["minilm-patched"][0], tensors).run(batch(2, 64))
    assert all(t._version == before[n][0] and torch.equal(t, before[n][1]) for n, t in tensors.items())
