"""Structure is found by class layout and attribute names on every encoder family, without reading a model type."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch import nn

from adapters import structure
from adapters.errors import StructureUnknown
from tests.adapters.patches.families import family as family_named

FAMILIES = ["bert", "albert", "roberta", "xlm-roberta", "mpnet", "distilbert", "electra"]
PATHS = {
    "bert": ["encoder.layer.0", "encoder.layer.1"],
    "roberta": ["encoder.layer.0", "encoder.layer.1"],
    "xlm-roberta": ["encoder.layer.0", "encoder.layer.1"],
    "mpnet": ["encoder.layer.0", "encoder.layer.1"],
    "electra": ["encoder.layer.0", "encoder.layer.1"],
    "distilbert": ["transformer.layer.0", "transformer.layer.1"],
    "albert": ["encoder.albert_layer_groups.0.albert_layers.0"],
}


@pytest.mark.parametrize("family", FAMILIES)
def test_blocks_are_the_repeated_layers(family: str, make_model: Callable[[str], nn.Module]) -> None:
    assert [b.path for b in structure.find_blocks(make_model(family))] == PATHS[family]


@pytest.mark.parametrize("family", FAMILIES)
def test_each_block_has_one_attention_with_its_output_projection(
    family: str, make_model: Callable[[str], nn.Module]
) -> None:
    model = make_model(family)
    sites = structure.find_attention(model)
    assert len(sites) == len(PATHS[family])
    for site in sites:
        assert (site.head_dim, site.heads, site.kv_heads) == (32, 2, 2)
        assert site.o.in_features == site.q.out_features == 64
        assert site.scale == ("sqrt_head" if family == "mpnet" else "attribute")


def test_albert_with_two_groups_has_every_inner_layer_as_a_block() -> None:
    from transformers import AlbertConfig, AlbertModel

    model = AlbertModel(
        AlbertConfig(vocab_size=50, hidden_size=64, num_attention_heads=2, num_hidden_groups=2, inner_group_num=2)
    )
    assert len(structure.find_blocks(model)) == 4


@pytest.mark.parametrize(
    ("family", "by_id"), [("bert", False), ("albert", False), ("roberta", True), ("mpnet", True), ("distilbert", False)]
)
def test_position_rule_is_read_from_the_embeddings(
    family: str, by_id: bool, make_model: Callable[[str], nn.Module]
) -> None:
    model = make_model(family)
    assert structure.counts_positions_by_id(model) is by_id
    assert structure.position_table(model) is not None


@pytest.mark.parametrize(("name", "itself"), [("clip_text_model", True), ("gpt2", False)])
def test_who_looks_for_the_end_of_a_text_is_read_from_the_model_s_forward(name: str, itself: bool) -> None:
    assert structure.pools_at_the_end(family_named(name)) is itself


def test_a_model_without_repeated_layers_is_refused() -> None:
    with pytest.raises(StructureUnknown, match="no list of repeated layers"):
        structure.find_blocks(nn.Sequential(nn.Linear(2, 2)))


def test_heads_are_the_poolers(make_model: Callable[[str], nn.Module]) -> None:
    model = make_model("albert")
    assert structure.heads_of(model) == [model.pooler, model.pooler_activation]
    assert structure.encoder_of(model, structure.find_blocks(model)) is model.encoder
