"""Patches match by structure, refuse what they cannot handle, and carry digests that move with their targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import nn

from adapters.errors import DocumentRefused, PatchDoesNotApply, PatchParameters
from adapters.patches import contiguous
from adapters.patches.base import HostCall, PatchContext
from adapters.patches.contiguous import NAME
from adapters.patches.dtype import choose_dtype, largest_activation
from adapters.patches.embeddings import position_ids
from adapters.patches.masks import additive_mask
from adapters.patches.registry import ORDER, PATTERNS, in_order, patch_from

P20 = {"pattern": "P20", "parameters": {"head_dim": 32, "padded_head_dim": 64}}
NEW_GELU = "transformers.activations.NewGELUActivation"
DOUBLE = {"version": 1, "nodes": [{"op": "aten.mul.Tensor", "args": [{"ref": 0}, 2.0]}], "output": {"ref": 1}}
REFUSED: dict[str, tuple[str, dict[str, Any], type[Exception], str]] = {
    "heads of another size": ("bert", {"head_dim": 48, "padded_head_dim": 64}, PatchDoesNotApply, "heads of 48"),
    "padding down": ("bert", {"head_dim": 32, "padded_head_dim": 16}, PatchParameters, "cannot pad"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_head_padding_is_refused(name: str, make_model: Callable[[str], nn.Module]) -> None:
    family, parameters, error, reason = REFUSED[name]
    with pytest.raises(error, match=reason):
        patch_from({"pattern": "P20", "parameters": parameters}).match(make_model(family))


def test_head_padding_is_refused_with_rotary_positions(make_model: Callable[[str], nn.Module]) -> None:
    model = make_model("bert")
    model.encoder.rotary_emb = nn.Identity()
    with pytest.raises(PatchDoesNotApply, match="P21"):
        patch_from(P20).match(model)


def test_head_padding_is_refused_when_the_scale_is_unknown(make_model: Callable[[str], nn.Module]) -> None:
    model = make_model("bert")
    del model.encoder.layer[0].attention.self.scaling
    with pytest.raises(PatchDoesNotApply, match="scale"):
        patch_from(P20).match(model)


def test_albert_s_shared_layer_is_padded_once(make_model: Callable[[str], nn.Module]) -> None:
    model = make_model("albert")
    undo = patch_from(P20).apply(model, _context())
    site = model.encoder.albert_layer_groups[0].albert_layers[0].attention
    assert (site.query.out_features, site.dense.in_features, site.attention_head_size) == (128, 128, 64)
    undo()
    assert (site.query.out_features, site.dense.in_features, site.attention_head_size) == (64, 64, 32)


def test_tied_projections_stay_tied(make_model: Callable[[str], nn.Module]) -> None:
    model = make_model("bert")
    first, second = (layer.attention.self for layer in model.encoder.layer)
    second.value.weight = first.value.weight
    undo = patch_from(P20).apply(model, _context())
    assert second.value.weight is first.value.weight
    undo()
    assert second.value.weight is first.value.weight


def test_a_windowed_model_is_refused_by_the_mask_patch(make_model: Callable[[str], nn.Module]) -> None:
    model = make_model("bert")
    model.config.sliding_window = 16
    with pytest.raises(PatchDoesNotApply, match="P45"):
        patch_from({"pattern": "P40"}).match(model)


def test_a_prepared_mask_from_the_caller_is_refused(make_model: Callable[[str], nn.Module]) -> None:
    context = _context()
    patch_from({"pattern": "P40"}).apply(make_model("bert"), context)
    with pytest.raises(PatchDoesNotApply, match="4 dimensions"):
        context.before[0][1]({"attention_mask": torch.ones(1, 1, 2, 2)}, HostCall())


def test_mask_is_present_when_nothing_is_padded(make_model: Callable[[str], nn.Module]) -> None:
    context = _context(torch.float16)
    patch_from({"pattern": "P40"}).apply(make_model("bert"), context)
    mask = context.before[0][1]({"input_ids": torch.ones(2, 3, dtype=torch.int64)}, HostCall())["attention_mask"]
    assert (mask.shape, mask.dtype, mask.is_contiguous()) == ((2, 1, 3, 3), torch.float16, True)
    assert not mask.any()


def test_fill_is_half_the_least_value_of_the_dtype() -> None:
    mask = additive_mask(torch.tensor([[1, 0]]), torch.float16)
    assert mask.tolist() == [[[[0.0, -32752.0], [0.0, -32752.0]]]]


def test_causal_mask_looks_back_only_and_no_row_is_empty() -> None:
    mask = additive_mask(torch.tensor([[0, 1, 1]]), torch.float32, causal=True) == 0
    assert mask[0, 0].tolist() == [[True, False, False], [False, True, False], [False, True, True]]


def test_contiguous_attention_is_refused_without_sdpa(make_model: Callable[[str], nn.Module]) -> None:
    with pytest.raises(PatchDoesNotApply, match="eager"):
        patch_from({"pattern": "P54"}).match(make_model("mpnet"))


def test_contiguous_attention_registers_and_leaves_with_its_last_user(
    make_model: Callable[[str], nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AttentionInterface, AttentionMaskInterface

    monkeypatch.setattr(contiguous, "_users", [])
    model, other = make_model("bert"), make_model("roberta")
    config = model.config
    patch = patch_from({"pattern": "P54"})
    undo, undo_other = patch.apply(model, _context()), patch.apply(other, _context())
    assert model.config is not config
    assert (model.config._attn_implementation, config._attn_implementation) == (NAME, "sdpa")
    assert model.encoder.layer[0].attention.self.config is model.config
    undo()
    assert NAME in AttentionInterface._global_mapping
    assert NAME in AttentionMaskInterface._global_mapping
    undo_other()
    assert model.config is config
    assert NAME not in AttentionInterface._global_mapping
    assert NAME not in AttentionMaskInterface._global_mapping


def test_another_model_with_the_same_config_object_is_untouched(make_model: Callable[[str], nn.Module]) -> None:
    from transformers import BertModel

    model = make_model("bert")
    sibling = BertModel(model.config)
    patch_from({"pattern": "P54"}).apply(model, _context())()
    undo = patch_from({"pattern": "P54"}).apply(model, _context())
    assert sibling.config._attn_implementation == "sdpa"
    undo()


def test_attention_gets_contiguous_operands(
    make_model: Callable[[str], nn.Module], inputs: dict[str, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    stock = nn.functional.scaled_dot_product_attention

    def spy(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        seen.extend(t.is_contiguous() for t in (q, k, v))
        return stock(q, k, v, **kwargs)

    model = make_model("bert")
    undo = patch_from({"pattern": "P54"}).apply(model, _context())
    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", spy)
    with torch.no_grad():
        model(**inputs)
    undo()
    assert seen == [True] * 6


def test_elementwise_module_is_replaced_in_every_layer(make_model: Callable[[str], nn.Module]) -> None:
    model = make_model("albert")
    layer = model.encoder.albert_layer_groups[0].albert_layers[0]
    before = layer.activation
    patch = patch_from({"pattern": "P01", "parameters": {"module_class": NEW_GELU, "document": DOUBLE}})
    undo = patch.apply(model, _context())
    assert torch.equal(layer.activation(torch.ones(2)), torch.full((2,), 2.0))
    undo()
    assert layer.activation is before


def test_elementwise_needs_an_instance_and_a_sound_document(make_model: Callable[[str], nn.Module]) -> None:
    with pytest.raises(PatchDoesNotApply, match="has no"):
        patch_from({"pattern": "P01", "parameters": {"module_class": NEW_GELU, "document": DOUBLE}}).match(
            make_model("bert")
        )
    bad = {"pattern": "P01", "parameters": {"module_class": NEW_GELU, "document": {"version": 1}}}
    with pytest.raises(DocumentRefused):
        patch_from(bad).apply(make_model("albert"), _context())


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"pattern": "P00"}, "P00"),
        ({"pattern": "P20", "parameters": {"heads": 3}}, "unknown parameters"),
        ({"pattern": "P30", "parameters": {"placement": "device"}}, "placement"),
        ({"pattern": "P40", "parameters": {"fill": "-inf"}}, "fill"),
        ({"pattern": "P56", "parameters": {"dtype": "float8"}}, "dtype"),
        ({"pattern": "P63", "parameters": {"side": "top"}}, "side"),
        ({"pattern": "P80", "parameters": {"placement": "device"}}, "placement"),
    ],
)
def test_unusable_parameters_are_refused(
    data: dict[str, Any], reason: str, make_model: Callable[[str], nn.Module]
) -> None:
    with pytest.raises(PatchParameters, match=reason):
        patch_from(data).match(make_model("bert"))


def test_every_pattern_states_its_mathematics_and_exactness() -> None:
    for cls in ORDER:
        assert cls.mathematics
        assert cls.exactness == "exact" or (cls.exactness == "bounded" and cls.bound)
    assert len(PATTERNS) == len(ORDER)


def test_canonical_order_is_independent_of_the_given_one() -> None:
    data = [{"pattern": p} for p in ("P40", "P61", "P56", "P20", "P01")]
    assert [d["pattern"] for d in in_order(data)] == ["P56", "P01", "P20", "P40", "P61"]
    with pytest.raises(PatchParameters):
        in_order([{"pattern": "P00"}])


@pytest.mark.parametrize("pattern", ["P20", "P54", "P61", "P63", "P30", "P32", "P40", "P56"])
def test_digest_moves_with_the_replaced_source(pattern: str, make_model: Callable[[str], nn.Module]) -> None:
    parameters = P20["parameters"] if pattern == "P20" else {}
    patch = patch_from({"pattern": pattern, "parameters": parameters})
    model = make_model("bert")
    before = patch.target_digest(model), patch.digest(model)
    assert before == (patch.target_digest(make_model("bert")), patch.digest(make_model("bert")))
    layers = model.encoder.layer
    for modules in ([model], [model.embeddings], layers, [layer.attention.self for layer in layers]):
        _move_source(modules)
    assert patch.target_digest(model) != before[0]
    assert patch.digest(model) != before[1]


def test_digest_moves_with_the_parameters_but_the_target_s_does_not(make_model: Callable[[str], nn.Module]) -> None:
    model = make_model("bert")
    small, large = (patch_from({"pattern": "P63", "parameters": {"multiple": n}}) for n in (64, 128))
    assert small.digest(model) != large.digest(model)
    assert small.target_digest(model) == large.target_digest(model)


def test_positions_by_id_skip_padding() -> None:
    ids = torch.tensor([[1, 7, 8, 1]])
    assert position_ids(ids, 1).tolist() == [[1, 2, 3, 1]]
    assert position_ids(ids, None).tolist() == [[0, 1, 2, 3]]


def test_overflow_probe_chooses_the_dtype(
    make_model: Callable[[str], nn.Module], inputs: dict[str, torch.Tensor]
) -> None:
    model = make_model("bert")
    assert choose_dtype(model, inputs) == "float16"
    with torch.no_grad():
        model.encoder.layer[0].intermediate.dense.bias.fill_(20_000.0)
    assert largest_activation(model, inputs) > 19_000
    assert choose_dtype(model, inputs) == "bfloat16"
    assert not any(m._forward_hooks for m in model.modules())


def _context(dtype: torch.dtype = torch.float32) -> PatchContext:
    return PatchContext(torch.device("cpu"), dtype)


def _move_source(modules: Iterable[nn.Module]) -> None:
    """Gives the instances a class whose source is another one, as after an upgrade of transformers."""
    modules = list(modules)
    stock = type(modules[0])

    class Upgraded(stock):  # type: ignore[misc, valid-type]
        # ALL_ATTENTION_FUNCTIONS create_bidirectional_mask( create_position_ids_from_input_ids
        moved = True

    Upgraded.__module__, Upgraded.__qualname__ = __name__, "_move_source.<locals>.Upgraded"
    for module in modules:
        module.__class__ = Upgraded
