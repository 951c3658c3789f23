"""Each patch alone, and all of them, are the same mathematics as stock: fp64 to 1e-12, fp32 to rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

FAMILIES = ["bert", "albert", "roberta", "xlm-roberta", "mpnet", "distilbert", "electra"]
P20 = {"pattern": "P20", "parameters": {"head_dim": 32, "padded_head_dim": 64}}
P40 = {"pattern": "P40", "parameters": {"fill": "finfo_min_half"}}
P63 = {"pattern": "P63", "parameters": {"multiple": 64, "side": "right"}}
ALONE: dict[str, list[dict[str, Any]]] = {
    "P20": [P20],
    "P30": [{"pattern": "P30"}],
    "P32": [{"pattern": "P32"}],
    "P40": [P40],
    "P54": [{"pattern": "P54"}],
    "P56": [{"pattern": "P56", "parameters": {"dtype": "float16"}}],
    "P61": [{"pattern": "P61"}],
    "P63": [P63],
    "P63 left": [{"pattern": "P63", "parameters": {"multiple": 64, "side": "left"}}],
    "P80 P12": [{"pattern": "P80"}, {"pattern": "P12"}],
}
EVERYTHING = [P20, {"pattern": "P30"}, P63, P40, {"pattern": "P61"}]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ALONE)
def test_patch_alone_is_exact_in_fp64(name: str, family: str, difference: Callable[..., float]) -> None:
    if name == "P54" and family == "mpnet":
        return
    assert difference(family, ALONE[name]) < 1e-12


@pytest.mark.parametrize("family", FAMILIES)
def test_all_patches_together_are_exact(family: str, difference: Callable[..., float]) -> None:
    attention = [] if family == "mpnet" else [{"pattern": "P54"}]
    assert difference(family, [*EVERYTHING, *attention]) < 1e-12
    assert difference(family, [*EVERYTHING, *attention], torch.float32) < 2e-5


def test_mpnet_bias_on_the_host_is_exact(difference: Callable[..., float]) -> None:
    assert difference("mpnet", [{"pattern": "P47"}, P40, P63]) < 1e-12


@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 127, 128, 129])
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_every_length_gives_the_same_answer(family: str, length: int, difference: Callable[..., float]) -> None:
    ids = torch.randint(5, 100, (2, length), generator=torch.Generator().manual_seed(length))
    mask = torch.ones_like(ids)
    mask[1, max(1, length // 2) :] = 0
    ids = ids.masked_fill(mask == 0, 1 if family == "roberta" else 0)
    assert difference(family, [P63, P40], input_ids=ids, attention_mask=mask) < 1e-12


def test_a_length_whose_padding_overruns_the_position_table(difference: Callable[..., float]) -> None:
    ids = torch.randint(5, 100, (1, 140), generator=torch.Generator().manual_seed(1))
    assert difference("bert", [P63, P40], input_ids=ids, attention_mask=torch.ones_like(ids)) < 1e-12


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_texts_the_caller_padded_on_the_left(family: str, difference: Callable[..., float]) -> None:
    ids = torch.randint(5, 100, (2, 9), generator=torch.Generator().manual_seed(2))
    mask = torch.ones_like(ids)
    mask[1, :4] = 0
    ids = ids.masked_fill(mask == 0, 1 if family == "roberta" else 0)
    assert difference(family, [P20, P63, P40], input_ids=ids, attention_mask=mask) < 1e-12


def test_token_types_are_kept(difference: Callable[..., float]) -> None:
    types = torch.tensor([[0] * 4 + [1] * 5] * 3)
    assert difference("bert", [P63, P40], token_type_ids=types) < 1e-12
