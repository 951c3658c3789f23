"""An adapted model is copied and saved as stock; what would change it underneath the adapter is refused."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from adapters import adapt
from adapters.errors import ShapeRefused, StillAdapted, StockGone, UndoneOutOfOrder
from adapters.limits import longest_input
from adapters.structure import find_blocks
from tests.adapters.test_adaptation import CPU, FAMILIES, patches_for, snapshot

Maker = Callable[[str], nn.Module]
Inputs = dict[str, torch.Tensor]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_deepcopy_is_stock_and_independent_and_the_adapted_one_goes_on(
    family: str, make_model: Maker, inputs: Inputs
) -> None:
    model = make_model(family)
    with torch.no_grad():
        stock = model(**inputs).last_hidden_state
    handle = adapt(model, patches=patches_for(family), **CPU)
    before, adapted = snapshot(model), model(**inputs).last_hidden_state
    twin = copy.deepcopy(model)
    assert snapshot(model) == before
    with torch.no_grad():
        assert torch.equal(twin(**inputs).last_hidden_state, stock)
    assert torch.equal(model(**inputs).last_hidden_state, adapted)
    handle.undo()
    adapt(twin, patches=patches_for(family), **CPU).undo()


def test_a_deepcopy_of_a_folder_of_models_holds_a_stock_copy(make_model: Maker) -> None:
    model = make_model("bert")
    with adapt(model, patches=patches_for("bert"), **CPU):
        twin = copy.deepcopy(nn.ModuleList([model]))
    assert "forward" not in twin[0].__dict__
    assert twin[0].config is not model.config


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_saving_writes_stock_weights(dtype: torch.dtype, make_model: Maker, tmp_path: Path) -> None:
    model = make_model("bert").to(dtype)
    model.save_pretrained(tmp_path / "stock")
    with adapt(model, patches=patches_for("bert"), **CPU):
        model.save_pretrained(tmp_path / "adapted")
        state = model.state_dict()
    stock, adapted = (load_file(tmp_path / name / "model.safetensors") for name in ("stock", "adapted"))
    assert stock.keys() == adapted.keys()
    assert all(torch.equal(adapted[k], v) and torch.equal(state[k], v) and v.dtype == dtype for k, v in stock.items())
    texts = [(tmp_path / name / "config.json").read_text() for name in ("stock", "adapted")]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_checkpoint_in_16_bits_is_adapted_and_comes_back_bit_for_bit(
    dtype: torch.dtype, make_model: Maker, inputs: Inputs
) -> None:
    model = make_model("bert").to(dtype)
    with torch.no_grad():
        stock = model(**inputs).last_hidden_state
        with adapt(model, patches=patches_for("bert"), **CPU):
            found = model(**inputs).last_hidden_state
        assert torch.equal(model(**inputs).last_hidden_state, stock)
    real = inputs["attention_mask"].bool()
    assert float(nn.functional.cosine_similarity(found, stock.float(), dim=-1)[real].min()) > 0.999


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.half(),
        lambda m: m.to("cpu", torch.float64),
        lambda m: m.train(),
        lambda m: m.load_state_dict({}),
        lambda m: m.requires_grad_(False).to(torch.bfloat16),
    ],
    ids=["half", "to", "train", "load_state_dict", "bfloat16"],
)
def test_changing_an_adapted_model_is_refused(change: Callable[[Any], object], make_model: Maker) -> None:
    model = make_model("bert")
    with adapt(model, patches=patches_for("bert"), **CPU), pytest.raises(StillAdapted, match=r"BertModel.*undo\(\)"):
        change(model)
    assert model.eval() is model


def test_eval_is_no_change(make_model: Maker) -> None:
    model = make_model("bert")
    with adapt(model, patches=patches_for("bert"), **CPU):
        assert model.eval() is model


@pytest.mark.parametrize(
    ("place", "value"),
    [("encoder.layer.1.attention.self", ("query", nn.Linear(2, 2))), ("", ("forward", lambda **k: None))],
)
def test_undo_out_of_order_is_refused_and_takes_nothing_back(
    place: str, value: tuple[str, Any], make_model: Maker, inputs: Inputs
) -> None:
    model = make_model("bert")
    handle = adapt(model, patches=patches_for("bert"), **CPU)
    name, other = value
    owner = model.get_submodule(place)
    mapping = owner.query._parameters if place else owner.__dict__
    key, other = ("weight", nn.Parameter(torch.ones(128, 64))) if place else (name, other)
    ours, mapping[key] = mapping[key], other
    with pytest.raises(UndoneOutOfOrder, match=rf"{key} was changed after the adaptation"):
        handle.undo()
    assert handle.active
    mapping[key] = ours
    model(**inputs)
    handle.undo()
    assert not handle.active


def test_two_models_are_undone_in_either_order(make_model: Maker, inputs: Inputs) -> None:
    models = [make_model("bert"), make_model("bert")]
    with torch.no_grad():
        stock = models[0](**inputs).last_hidden_state
        handles = [adapt(m, patches=patches_for("bert"), **CPU) for m in models]
        handles[0].undo()
        assert torch.equal(models[0](**inputs).last_hidden_state, stock)
        assert torch.allclose(models[1](**inputs).last_hidden_state[:, 0], stock[:, 0], atol=1e-4)
        handles[1].undo()
        assert torch.equal(models[1](**inputs).last_hidden_state, stock)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"input_ids": torch.zeros(9, dtype=torch.int64)}, r"tokens of shape \(9,\)"),
        ({"input_ids": torch.zeros((0, 9), dtype=torch.int64)}, "none of them 0"),
        ({"input_ids": torch.zeros((2, 0), dtype=torch.int64)}, "none of them 0"),
        ({"input_ids": torch.zeros((1, 141), dtype=torch.int64)}, "141 tokens.*positions for 140; truncate to 140"),
        ({"inputs_embeds": torch.zeros((2, 3))}, r"give \[batch, length, size\]"),
        (
            {"input_ids": torch.zeros((2, 9), dtype=torch.int64), "attention_mask": torch.ones((2, 8))},
            r"attention_mask is \(2, 8\); give \(2, 9\)",
        ),
    ],
)
def test_shapes_the_model_cannot_take_are_refused(wrong: Inputs, message: str, make_model: Maker) -> None:
    model = make_model("bert")
    with adapt(model, patches=patches_for("bert"), **CPU), pytest.raises(ShapeRefused, match=f"BertModel.*{message}"):
        model(**wrong)


@pytest.mark.parametrize(("family", "longest"), [("bert", 140), ("roberta", 138), ("mpnet", 138), ("distilbert", 140)])
def test_the_longest_input_is_that_of_the_position_table(family: str, longest: int, make_model: Maker) -> None:
    model = make_model(family)
    assert longest_input(model) == longest
    with torch.no_grad():
        model(input_ids=torch.full((1, longest), 7))
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, longest + 1), 7))


def test_a_report_is_a_table_to_read(make_model: Maker) -> None:
    model = make_model("bert")
    patches = [{**patch, "drafter": "rules"} for patch in patches_for("bert")]
    with adapt(model, patches=patches, **CPU) as handle:
        head, headings, *rows = str(handle.report()).splitlines()
    assert "active on cpu in float32" in head
    assert headings.split() == ["SITE", "REPLACED", "BY", "FORMULA", "EXACTNESS", "DRAFTER", "EVIDENCE"]
    assert len(rows) == len(patches)
    padded = next(row for row in rows if "P20 PadHeads(head_dim=32, padded_head_dim=64)" in row)
    assert padded.startswith("encoder.layer.0.attention.self and 1 more")
    assert all(part in padded for part in ("BertSelfAttention", "zeros add nothing", "exact", "rules", "none"))
    assert "undone" in str(handle.report())


def test_stock_weights_that_are_not_kept_are_free_and_there_is_no_way_back(make_model: Maker, inputs: Inputs) -> None:
    kept, model = make_model(FAMILIES[0]), make_model(FAMILIES[0])
    stock = [weakref.ref(p) for p in find_blocks(model)[0].module.parameters()]
    other = {**CPU, "dtype": torch.float64}
    patches = patches_for(FAMILIES[0])
    handle, same = adapt(model, patches=patches, **other, keep_stock=False), adapt(kept, patches=patches, **other)
    gc.collect()
    assert all(weight() is None for weight in stock)
    assert torch.equal(model(**inputs).last_hidden_state, kept(**inputs).last_hidden_state)
    for way_back in (handle.undo, lambda: copy.deepcopy(model), model.state_dict):
        with pytest.raises(StockGone, match="load the model anew"):
            way_back()
    same.undo()
