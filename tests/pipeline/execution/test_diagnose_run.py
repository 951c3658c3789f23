"""The model in which silent causes are looked for has the loud ones cured, in the order in which they are applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from transformers import ModernBertConfig, ModernBertModel

import adapters
from adapters.structure import find_blocks
from agents.types import Diagnosis, Failure, FailureKind, PatternUse
from pipeline.diagnosis.wrong_values.blocks import graph_of, record_block_calls
from pipeline.execution.diagnose_run import cures
from tests.adapters.patches.families import family
from tests.adapters.patches.test_families import inputs_of


def named(*uses: PatternUse) -> Diagnosis:
    failure = Failure(FailureKind.LAYOUT, op="aten.view.default", source="x.py:1", module="attn", message="")
    return Diagnosis(failure, uses)


def test_a_fused_projection_is_split_before_its_heads_are_padded() -> None:
    config = ModernBertConfig(
        vocab_size=100, hidden_size=64, num_attention_heads=2, intermediate_size=64, num_hidden_layers=2,
        pad_token_id=0, max_position_embeddings=64,
    )  # fmt: skip
    model = ModernBertModel(config).eval()
    found = cures(
        [
            named(PatternUse("P21", {"head_dim": 32, "padded_head_dim": 64}), PatternUse("P56", {"dtype": "float16"})),
            named(PatternUse("P14"), PatternUse("P80", {"placement": "host"})),
            named(PatternUse("P27")),
            named(PatternUse("P27")),
        ]
    )
    assert [patch["pattern"] for patch in found] == ["P27", "P21", "P14"]
    with adapters.adapt(model, patches=found, device="cpu", dtype=torch.float32, compile=False):
        assert model(input_ids=torch.ones(1, 5, dtype=torch.int64)).last_hidden_state.isfinite().all()


@pytest.mark.parametrize(
    ("name", "pattern", "refused"),
    [("deberta", "P49", "gather"), ("gpt_neo", "P96", "where"), ("longformer", "P52", "as_strided")],
)
def test_attention_of_its_own_kind_is_cured_before_the_search(name: str, pattern: str, refused: str) -> None:
    """Else the search meets the refused operation first, and no silent cause behind it is seen."""
    assert ops_of(name, []).count(refused) > 0
    assert ops_of(name, cures([named(PatternUse(pattern))])).count(refused) == 0


def ops_of(name: str, patches: list[Mapping[str, Any]]) -> list[str]:
    """The packets of a family's first block as the search sees it."""
    model = family(name)
    blocks = [(b.path, b.module) for b in find_blocks(model)]
    with torch.no_grad(), adapters.adapt(model, patches=patches, device="cpu", dtype=torch.float32, compile=False):
        graph = graph_of(record_block_calls(model, blocks, inputs_of(model))[0])
    return [operation.op.split(".")[1] for operation in graph.operations]
