"""Every bundled adapter on a small model of each of its families: found, exact enough, and gone without a trace."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from adapters import adapt, find
from adapters.releases.lookup import bundled_manifests
from tests.adapters.releases.small_models import RELEASED, small_model

CPU: dict[str, Any] = {"device": "cpu", "compile": False}
EXACT, HALF = 1e-5, {torch.float16: 0.999, torch.bfloat16: 0.99}
"""EXACT and HALF: what an adapted run agrees to with stock in fp32."""
STOCK_IS_WORSE = {
    ("t5-encoders", torch.bfloat16): "scores of T5 are not scaled: bfloat16 rounds large ones, in stock as well"
}
"""Where the stock model itself, in that dtype, agrees less than HALF asks: there a tenth more error than its own."""
HAND_AT_MOST, ADAPTERS_AT_MOST = 0.2, 13


def inputs_of(model: nn.Module, left: bool = False) -> dict[str, torch.Tensor]:
    """Three texts of 21, 9 and 1 tokens."""
    ids = torch.randint(5, 99, (3, 21), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(21)[None] < torch.tensor([21, 9, 1])[:, None]).long()
    pad = getattr(model.config, "pad_token_id", None) or 0
    values = {"input_ids": ids.masked_fill(mask == 0, pad), "attention_mask": mask}
    return {k: v.flip(1) for k, v in values.items()} if left else values


def run(model: nn.Module, values: dict[str, torch.Tensor]) -> torch.Tensor:
    with torch.no_grad():
        output: torch.Tensor = model(**values).last_hidden_state
    return output


def lowest_cosine(output: torch.Tensor, stock: torch.Tensor, real: torch.Tensor) -> float:
    return float(torch.cosine_similarity(output[real].float(), stock[real], dim=-1).min())


def trace(model: nn.Module) -> list[tuple[str, type, frozenset[str]]]:
    """Path, class and own attributes of every module."""
    return [(path, type(m), frozenset(m.__dict__)) for path, m in model.named_modules()]


@pytest.mark.parametrize(("adapter", "family"), RELEASED)
def test_a_released_adapter_is_found_exact_and_undone(adapter: str, family: str, tmp_path: Path) -> None:
    model, other = small_model(adapter, family), small_model(adapter, family)
    values = inputs_of(model)
    found = find(model)
    assert found is not None
    assert (found.name, family in found.families) == (adapter, True)
    stock, real = run(model, values), values["attention_mask"].bool()
    parameters, before = dict(model.named_parameters()), trace(model)
    handle = adapt(model, dtype=torch.float32, **CPU)
    patched = run(model, values)
    assert float((patched - stock)[real].abs().max() / stock[real].abs().max()) < EXACT
    assert torch.equal(run(other, values), stock), "a stock model beside it is disturbed"
    assert torch.equal(run(copy.deepcopy(model), values), stock), "a copy is not stock"
    _saved_as_stock(model, other, tmp_path)
    handle.undo()
    assert torch.equal(run(model, values), stock)
    assert trace(model) == before
    after = dict(model.named_parameters())
    assert after.keys() == parameters.keys()
    assert all(after[name] is parameters[name] for name in parameters)


def _saved_as_stock(adapted: nn.Module, stock: nn.Module, folder: Path) -> None:
    for name, model in (("adapted", adapted), ("stock", stock)):
        model.save_pretrained(folder / name)  # type: ignore[operator]
    files = [load_file(folder / name / "model.safetensors") for name in ("adapted", "stock")]
    assert files[0].keys() == files[1].keys()
    assert all(torch.equal(files[0][key], files[1][key]) for key in files[0])


@pytest.mark.parametrize(("adapter", "family"), RELEASED)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sixteen_bit_runs_agree_for_either_padding(adapter: str, family: str, dtype: torch.dtype) -> None:
    model = small_model(adapter, family)
    for left in (False, True):
        values = inputs_of(model, left)
        stock, real = run(model, values), values["attention_mask"].bool()
        with adapt(model, dtype=dtype, **CPU):
            lowest = lowest_cosine(run(model, values), stock, real)
        limit = HALF[dtype]
        if (adapter, dtype) in STOCK_IS_WORSE:
            limit = min(limit, 1 - 1.1 * (1 - lowest_of_stock(model, values, dtype)))
        assert lowest > limit, left


def lowest_of_stock(model: nn.Module, values: dict[str, torch.Tensor], dtype: torch.dtype) -> float:
    """The lowest token's cosine of the stock model in `dtype` with itself in fp32."""
    narrow = run(copy.deepcopy(model).to(dtype), values)
    return lowest_cosine(narrow, run(model, values), values["attention_mask"].bool())


@pytest.mark.parametrize(("adapter", "dtype"), STOCK_IS_WORSE)
def test_where_stock_is_said_to_be_worse_it_is(adapter: str, dtype: torch.dtype) -> None:
    models = [small_model(name, family) for name, family in RELEASED if name == adapter]
    lowest = [lowest_of_stock(m, inputs_of(m, left), dtype) for m in models for left in (False, True)]
    assert lowest
    assert min(lowest) < HALF[dtype]


@pytest.mark.parametrize(
    ("adapter", "block", "change"),
    [
        ("deberta", "DebertaV2Layer", {"conv_kernel_size": 3, "conv_act": "gelu"}),
        ("bert-shaped", "BertLayer", {"intermediate_size": 96}),
        ("modernbert", "ModernBertEncoderLayer", {"intermediate_size": 96}),
    ],
)
def test_what_no_member_was_verified_with_is_not_served(adapter: str, block: str, change: dict[str, Any]) -> None:
    own = next(f for a, f in RELEASED if a == adapter and described_by(a, f)["block"].endswith(f".{block}"))
    config = small_model(adapter, own).config
    assert find(config) is not None
    for name, value in change.items():
        setattr(config, name, value)
    assert find(config) is None


def described_by(adapter: str, family: str) -> dict[str, Any]:
    """The predicate of a member."""
    found: dict[str, Any] = next(m for m in bundled_manifests() if m.name == adapter).for_family(family).predicate
    return found


def test_sizes_that_a_member_pads_are_in_its_predicate() -> None:
    padding = {"P22": "size", "P23": "size"}
    for adapter in bundled_manifests():
        for member in map(adapter.for_family, adapter.families):
            padded = {str(p["parameters"][padding[p["pattern"]]]) for p in member.patches if p["pattern"] in padding}
            assert padded <= set(member.predicate.get("part_sticks", "").split("/")), member.family


def test_few_adapters_and_most_patches_by_drafters() -> None:
    adapters = bundled_manifests()
    assert 0 < len({adapter.name for adapter in adapters}) <= ADAPTERS_AT_MOST
    drafters = [p["drafter"] for a in adapters for f in a.families for p in a.for_family(f).patches]
    assert drafters.count("hand") <= HAND_AT_MOST * len(drafters)
    assert set(drafters) <= {"rules", "llm", "hand"}
