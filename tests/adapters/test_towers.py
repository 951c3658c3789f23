"""Of a model with parts for images or sound, the part that reads text is found, adapted and given back."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModel

from adapters import adapt
from adapters.describe import describe
from adapters.towers import build, loader, text_part, text_tower
from tests.adapters.conftest import lively
from tests.adapters.patches.families import InDouble

SIZES = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
    "projection_dim": 16,
}  # fmt: skip
IMAGES = {**SIZES, "image_size": 16, "patch_size": 8}
TEXT = {**SIZES, "vocab_size": 100, "max_position_embeddings": 40, "bos_token_id": 1, "eos_token_id": 99}
CONFIGS: dict[str, dict[str, Any]] = {
    "metaclip_2": {"text_config": {**TEXT, "pad_token_id": 0}, "vision_config": IMAGES, "projection_dim": 16},
    "clip": {"text_config": {**TEXT, "pad_token_id": 0}, "vision_config": IMAGES, "projection_dim": 16},
    "siglip": {"text_config": {**TEXT, "pad_token_id": 0}, "vision_config": IMAGES},
    "clap": {
        "text_config": {**TEXT, "pad_token_id": 1, "bos_token_id": 0},
        "audio_config": {
            "spec_size": 64, "num_mel_bins": 16, "hidden_size": 32, "patch_embeds_hidden_size": 8, "window_size": 4,
            "depths": [1, 1], "num_attention_heads": [2, 2], "num_hidden_layers": 2, "projection_dim": 16,
        },
        "projection_dim": 16,
    },
}  # fmt: skip
TOWERS = {"metaclip_2": "MetaClip2TextModel", "clip": "CLIPTextModel", "siglip": "SiglipTextModel"}
TOWERS["clap"] = "ClapTextModel"
PADDED = {"pattern": "P63", "parameters": {"multiple": 16}}
MASKS = [
    ("metaclip_2", "P40"),
    ("clip", "P40"),
    ("siglip", "P40"),
    ("clap", "P40"),
    ("metaclip_2", "P45"),
    ("clip", "P45"),
]


def whole(name: str) -> nn.Module:
    return lively(AutoModel.from_config(AutoConfig.for_model(name, **CONFIGS[name])))


def texts(model: nn.Module, length: int = 11) -> dict[str, torch.Tensor]:
    """Two texts that end in the end token, the second of six tokens and padded on the right."""
    ids = torch.randint(5, 98, (2, length), generator=torch.Generator().manual_seed(3))
    ids[0, -1] = ids[1, 5] = 99
    mask = torch.ones_like(ids)
    ids[1, 6:], mask[1, 6:] = int(text_tower(model).config.pad_token_id), 0  # type: ignore[union-attr, arg-type]
    return {"input_ids": ids, "attention_mask": mask}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_tower_that_reads_text_is_found_in_the_model_and_built_alone(name: str) -> None:
    model = whole(name)
    assert type(text_tower(model)).__name__ == TOWERS[name]
    assert text_tower(text_tower(model)) is text_tower(model)
    part = text_part(AutoConfig.for_model(name, **CONFIGS[name]))
    assert type(build(part)) is type(text_tower(model))
    assert describe(model) == describe(AutoConfig.for_model(name, **CONFIGS[name]))


@pytest.mark.parametrize("name", CONFIGS)
def test_a_tower_saved_alone_is_loaded_by_its_own_class(name: str, tmp_path: Any) -> None:
    tower = text_tower(whole(name))
    tower.save_pretrained(tmp_path)  # type: ignore[operator]
    config = AutoConfig.from_pretrained(tmp_path)
    again = loader(config).from_pretrained(tmp_path, config=config)
    assert type(again) is type(tower)
    assert all(torch.equal(a, b) for a, b in zip(again.state_dict().values(), tower.state_dict().values(), strict=True))


@pytest.mark.parametrize(("name", "mask"), MASKS)
def test_features_of_texts_are_those_of_stock_whatever_is_padded(name: str, mask: str) -> None:
    model: Any = whole(name).double()
    values = texts(model)
    before = dict(model.named_parameters())
    with torch.no_grad(), InDouble():
        stock = model.get_text_features(**values).pooler_output
        with adapt(model, patches=[PADDED, {"pattern": mask}], device="cpu", compile=False, dtype="float64"):
            adapted = model.get_text_features(**values).pooler_output
        assert torch.equal(model.get_text_features(**values).pooler_output, stock)
    assert float((adapted - stock).abs().max() / stock.abs().max()) < 1e-12
    assert all(before[n] is p for n, p in model.named_parameters())
    assert not any("forward" in m.__dict__ for m in model.modules())


@pytest.mark.parametrize("name", ["metaclip_2", "clip", "siglip"])
def test_features_of_images_are_those_of_stock_with_padded_patches_and_heads(name: str) -> None:
    model: Any = whole(name).double()
    images = torch.randn((2, 3, 16, 16), dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    wide = {"pattern": "P20", "parameters": {"head_dim": 16, "padded_head_dim": 64}}
    inner = {"pattern": "P22", "parameters": {"size": 48, "padded": 64}}
    patches = [inner, wide, {"pattern": "P30"}, {"pattern": "P98", "parameters": {"multiple": 16}}]
    before = dict(model.named_parameters())
    with torch.no_grad(), InDouble():
        stock = model.get_image_features(pixel_values=images).pooler_output
        with adapt(model.vision_model, patches=patches, device="cpu", compile=False, dtype="float64"):
            adapted = model.get_image_features(pixel_values=images).pooler_output
        assert torch.equal(model.get_image_features(pixel_values=images).pooler_output, stock)
    assert float((adapted - stock).abs().max() / stock.abs().max()) < 1e-12
    assert all(before[n] is p for n, p in model.named_parameters())


TEXT_ONLY = {"vocab_size": 100, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
TEXT_ONLY |= {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64}
AXES = {"rope_type": "default", "rope_theta": 10000.0}
TOGETHER: dict[str, dict[str, Any]] = {
    "llava_next": {
        "text_config": {"model_type": "mistral", **TEXT_ONLY, "pad_token_id": 0},
        "vision_config": {"model_type": "clip_vision_model", **IMAGES}, "image_token_index": 98,
        "image_grid_pinpoints": [[16, 16]],
    },
    "qwen3_vl": {
        "text_config": {
            **TEXT_ONLY, "head_dim": 16, "pad_token_id": 0,
            "rope_parameters": {**AXES, "mrope_section": [4, 2, 2], "mrope_interleaved": True},
        },
        "vision_config": {
            "depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 32,
            "patch_size": 4, "num_position_embeddings": 16, "deepstack_visual_indexes": [0],
        },
    },
    "qwen2_5_vl": {
        "text_config": {**TEXT_ONLY, "pad_token_id": 0, "rope_parameters": {**AXES, "mrope_section": [2, 3, 3]}},
        "vision_config": {
            "depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 32,
            "patch_size": 4,
        },
    },
}  # fmt: skip


@pytest.mark.parametrize("host", [False, True])
@pytest.mark.parametrize("name", TOGETHER)
def test_texts_of_a_model_that_reads_images_among_them_are_those_of_stock(name: str, host: bool) -> None:
    model: Any = lively(AutoModel.from_config(AutoConfig.for_model(name, **TOGETHER[name]))).double()
    assert text_tower(model) is model.language_model
    values = texts(model)
    patches = [{"pattern": "P14"}, *([{"pattern": "P30"}] if host else []), PADDED, {"pattern": "P45"}]
    with torch.no_grad(), InDouble():
        stock = model(**values).last_hidden_state
        with adapt(model, patches=patches, device="cpu", compile=False, dtype="float64"):
            adapted = model(**values).last_hidden_state
        assert torch.equal(model(**values).last_hidden_state, stock)
    real = values["attention_mask"].bool()
    assert float((adapted - stock)[real].abs().max() / stock[real].abs().max()) < 1e-12
