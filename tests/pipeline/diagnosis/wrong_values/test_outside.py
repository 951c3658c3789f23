"""Parts outside the blocks: what is compared, and that a wrong call inside a wrong part is named with its line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel, LlamaConfig, LlamaModel

from pipeline.diagnosis.wrong_values import device_runs, outside
from pipeline.diagnosis.wrong_values.outside import Part, outside_findings, outside_modules, record_parts

SMALL = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}


def test_embeddings_and_the_last_norm_are_parts_and_norms_of_blocks_and_embeddings_are_not() -> None:
    llama = LlamaModel(LlamaConfig(**SMALL, pad_token_id=0))
    assert list(outside_modules(llama, ["layers.0"])) == ["embed_tokens", "norm"]
    bert = BertModel(BertConfig(**SMALL))
    assert list(outside_modules(bert, ["encoder.layer.0"])) == ["embeddings"]


def test_each_part_is_recorded_with_its_first_inputs() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
    x = torch.ones(1, 2)
    parts = record_parts(model, {"1": model[1]}, {"input": x})
    assert [p.path for p in parts] == ["1"]
    assert torch.equal(parts[0].args[0], model[0](x))


class Tripled(nn.Module):
    """Right in fp32; in 16 bits its own operation triples where it should double."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.outside_test.twice(x + 1.0) * 0.5  # type: ignore[no-any-return]


@pytest.fixture
def host_as_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The host in the place of the device, with one operation that is wrong in 16 bits."""
    with torch.library._scoped_library("outside_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * (3 if x.dtype == torch.float16 else 2), "CPU")
        for module in (device_runs, outside):
            monkeypatch.setattr(module, "DEVICE", "cpu")
        yield


def test_the_wrong_call_of_a_wrong_part_is_named_and_no_other(host_as_device: Any) -> None:
    x = torch.linspace(1.0, 2.0, 64).reshape(1, 64)
    found = list(outside_findings([Part("layers.3.embeddings", Tripled(), (x,), {})], "whole"))
    assert [f.failure.op for f in found] == ["outside_test.twice.default"]
    failure = found[0].failure
    assert (failure.kind, failure.place, failure.module) == ("wrong_values", "outside", "layers.*.embeddings")
    assert failure.scalars[0] == "value"
    assert list(outside_findings([Part("norm", nn.LayerNorm(64), (x,), {})], "whole")) == []
