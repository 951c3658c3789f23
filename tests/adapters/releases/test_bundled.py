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
from tests.adapters.releases.small_models import RELEASED, small_model

CPU: dict[str, Any] = {"device": "cpu", "compile": False}
EXACT, HALF = 1e-5, {torch.float16: 0.999, torch.bfloat16: 0.99}
"""HALF: what a run agrees to, or a tenth worse than the stock model in that dtype: T5's scores are not scaled."""
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
        narrow = lowest_cosine(run(copy.deepcopy(model).to(dtype), values), stock, real)
        assert 1 - lowest < max(1 - HALF[dtype], 1.1 * (1 - narrow)), left


def test_few_adapters_and_most_patches_by_drafters() -> None:
    from adapters.releases.lookup import bundled_manifests

    adapters = bundled_manifests()
    assert 0 < len({adapter.name for adapter in adapters}) <= ADAPTERS_AT_MOST
    drafters = [p["drafter"] for a in adapters for f in a.families for p in a.for_family(f).patches]
    assert drafters.count("hand") <= HAND_AT_MOST * len(drafters)
    assert set(drafters) <= {"rules", "llm", "hand"}
