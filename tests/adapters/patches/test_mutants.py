"""The equality test sees wrong patches: each mutation moves the output far beyond what rounding can."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from adapters.patches import elementwise, heads, lengths, masks

P20 = {"pattern": "P20", "parameters": {"head_dim": 32, "padded_head_dim": 64}}
P40 = {"pattern": "P40"}
P63 = {"pattern": "P63"}
SEEN = 1e-3


def test_padding_at_the_end_of_the_matrix(difference: Callable[..., float], monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(p: torch.Tensor, head_dim: int, padded: int) -> torch.Tensor:
        rows = p.shape[0] // head_dim * (padded - head_dim)
        return torch.cat([p.detach(), p.new_zeros((rows, *p.shape[1:]))])

    monkeypatch.setattr(heads, "pad_rows", wrong)
    assert difference("bert", [P20]) > SEEN


def test_columns_not_per_head(difference: Callable[..., float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "pad_columns", lambda w, d, n: F.pad(w.detach(), (0, w.shape[1] // d * (n - d))))
    assert difference("bert", [P20]) > SEEN


def test_scale_of_the_padded_head(difference: Callable[..., float], monkeypatch: pytest.MonkeyPatch) -> None:
    pad = heads.PadHeads._pad_site

    def wrong(self: Any, site: Any, undo: Any, made: Any) -> None:
        pad(self, site, undo, made)
        undo.set_attribute(site.module, "scaling", self.padded_head_dim**-0.5)

    monkeypatch.setattr(heads.PadHeads, "_pad_site", wrong)
    assert difference("bert", [P20]) > SEEN


def test_scale_not_compensated_where_the_head_size_decides(
    difference: Callable[..., float], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = heads.find_attention
    monkeypatch.setattr(heads, "find_attention", lambda model: [replace(s, scale="attribute") for s in find(model)])
    assert difference("mpnet", [P20]) > SEEN


def test_mask_dropped(difference: Callable[..., float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "_two_dimensional", lambda values: torch.ones_like(values["attention_mask"]))
    assert difference("bert", [P40]) > SEEN


def test_mask_inverted(difference: Callable[..., float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "_two_dimensional", lambda values: 1 - values["attention_mask"])
    assert difference("bert", [P40]) > SEEN


def test_padding_that_is_attended(difference: Callable[..., float], monkeypatch: pytest.MonkeyPatch) -> None:
    padded = lengths._Padder._padded

    def wrong(self: Any, values: dict[str, Any], length: int, added: int) -> dict[str, Any]:
        result = padded(self, values, length, added)
        return {**result, "attention_mask": torch.ones_like(result["attention_mask"])}

    monkeypatch.setattr(lengths._Padder, "_padded", wrong)
    assert difference("bert", [P63, P40]) > SEEN


def test_another_activation(difference: Callable[..., float]) -> None:
    tanh_form = {
        "version": 1,
        "nodes": [{"op": "aten.relu.default", "args": [{"ref": 0}]}],
        "output": {"ref": 1},
    }
    name = "transformers.activations.NewGELUActivation"
    patch = {"pattern": elementwise.ReplaceElementwise.pattern, "parameters": {"module_class": name}}
    patch["parameters"]["document"] = tanh_form
    assert difference("albert", [patch]) > SEEN


def test_the_absolute_fourth_power_of_erratum_e08(difference: Callable[..., float]) -> None:
    from transformers.activations import NewGELUActivation

    from adapters.document import capture_module
    from agents.drafters.rules.documents import without_powers

    document = without_powers(capture_module(NewGELUActivation()))
    name = "transformers.activations.NewGELUActivation"
    right = {"pattern": "P01", "parameters": {"module_class": name, "document": document}}
    assert difference("albert", [right]) < 1e-12
    for node in document["nodes"]:
        if node["args"][-1] == 0.044715:
            node["args"][-1] = 0.44715
    assert difference("albert", [right]) > SEEN
