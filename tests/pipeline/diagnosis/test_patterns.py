"""The pattern table looks at failures and structure only, never at a model's name."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace

import pytest
import torch
from transformers import MPNetConfig, MPNetModel, T5Config, T5EncoderModel

from adapters.patches.registry import PATTERNS
from agents.types import Failure, FailureKind, PatternUse
from pipeline.diagnosis import patterns
from pipeline.diagnosis.facts import model_facts
from pipeline.diagnosis.patterns import Facts, patterns_for
from pipeline.diagnosis.service import diagnose_failures


def failure(kind: str, op: str = "aten.view.default", **more: object) -> Failure:
    base = {"source": "modeling_x.py:10", "module": "encoder.layer.*.attention", "message": ""}
    return Failure(kind=FailureKind(kind), op=op, **{**base, **more})  # type: ignore[arg-type]


def ids(found: Failure, facts: Facts) -> list[str]:
    return [use.pattern for use in patterns_for(found, facts)]


def test_fp32_refusals_ask_for_a_narrow_dtype_only_in_the_fp32_run() -> None:
    refused = {"kind": "unsupported_dtype", "op": "aten.mm.default", "dtypes": ("float32", "float32")}
    assert ids(failure(**refused, dtype_run="float32"), Facts(64)) == ["P56"]
    assert ids(failure(**refused, dtype_run="float16"), Facts(64)) == []


def test_a_narrow_dtype_is_no_cure_for_integer_operands() -> None:
    integers = failure("unsupported_dtype", "aten.ge.Scalar", dtypes=("int64",), dtype_run="float32", place="outside")
    assert ids(integers, Facts(64)) == []


def test_heads_that_split_a_stick_are_padded_to_the_next_whole_stick() -> None:
    for head_dim, wanted in ((32, 64), (72, 128), (96, 128)):
        use = patterns_for(failure("layout"), Facts(head_dim))[0]
        assert use.parameters == {"head_dim": head_dim, "padded_head_dim": wanted}
    assert ids(failure("layout"), Facts(64)) == []


def test_mask_building_moves_to_the_host() -> None:
    assert ids(failure("unsupported_op", source="masking_utils.py:400", place="outside"), Facts(64)) == ["P40"]


def test_pooling_moves_to_the_host_and_is_not_mistaken_for_a_mask() -> None:
    assert ids(failure("unsupported_op", "aten.sum.dim_IntList", source="embedder.py:40"), Facts(64)) == ["P80"]
    assert ids(failure("unsupported_op", "aten.clamp_min.default", source="embedder.py:31"), Facts(64)) == [
        "P80",
        "P12",
    ]


def test_a_model_that_looks_for_the_end_of_a_text_itself_does_so_on_the_host() -> None:
    ends = failure("unsupported_dtype", "aten.eq.Scalar", dtypes=("int32",), place="outside", module="model")
    assert ids(ends, Facts(64, pools=True)) == ["P80"]
    assert ids(ends, Facts(64)) == []
    assert ids(replace(ends, source="masking_utils.py:249"), Facts(64, pools=True)) == ["P40"]
    assert ids(replace(ends, place="block", module="model.layers.0"), Facts(64, pools=True)) == []


def test_each_silent_cause_has_its_own_pattern() -> None:
    sdpa = "aten.scaled_dot_product_attention.default"
    assert ids(failure("wrong_values", sdpa, scalars=("layout",)), Facts(64)) == ["P54"]
    assert ids(failure("wrong_values", sdpa, scalars=("length",)), Facts(64)) == ["P63"]
    assert ids(failure("wrong_values", "block", scalars=("border",)), Facts(64)) == ["P61"]


def test_attention_that_reads_keys_repeated_by_a_view_needs_them_grouped_not_copied_before() -> None:
    sdpa = "aten.scaled_dot_product_attention.default"
    repeated = failure("wrong_values", sdpa, scalars=("layout",), shapes=((2, 1, 3, 128, 256), (2, 3, 128, 256)))
    assert ids(repeated, Facts(256, parts={"P55": frozenset({"x"}), "P42": frozenset({"x"})})) == ["P55", "P42"]
    assert ids(repeated, Facts(256)) == ["P54"]


def test_a_norm_of_heads_that_is_wrong_with_the_copy_of_its_result_reads_a_copy_itself() -> None:
    facts = Facts(256, parts={"P60": frozenset({"x.*.q_norm"})})
    fused = failure("wrong_values", "aten.mul.Tensor", module="x.*.q_norm", scalars=("fused", "aten.contiguous"))
    assert ids(fused, facts) == ["P60"]
    assert ids(replace(fused, module="x.*.mlp"), facts) == []


def test_padding_side_follows_causality_but_never_moves_learned_positions() -> None:
    sdpa = failure("wrong_values", "aten.scaled_dot_product_attention.default", scalars=("length",))
    assert patterns_for(sdpa, Facts(64, causal=True, rotary=True))[0].parameters["side"] == "left"
    assert patterns_for(sdpa, Facts(64, causal=True))[0].parameters["side"] == "right"


def test_power_in_an_activation_names_the_class_to_replace() -> None:
    facts = Facts(64, elementwise={"encoder.layer.*.activation": "transformers.activations.NewGELUActivation"})
    bad = failure("wrong_values", "aten.pow.Tensor_Scalar", module="encoder.layer.*.activation", scalars=("value", 3))
    use = patterns_for(bad, facts)[0]
    assert (use.pattern, use.parameters) == ("P01", {"module_class": "transformers.activations.NewGELUActivation"})


def test_the_table_names_no_model_type_and_no_erratum() -> None:
    source = inspect.getsource(patterns)
    assert not re.search(r"bert|gpt|qwen|gemma|\bE-\d\d", source, re.IGNORECASE)


def test_relative_bias_and_counted_positions_move_to_the_host_where_the_model_has_them() -> None:
    bias = failure("unsupported_dtype", "aten.neg.default", module="model.encoder", place="outside", dtypes=("int64",))
    assert ids(bias, Facts(64, relative_bias=True)) == ["P47"]
    assert ids(bias, Facts(64)) == []
    counting = failure("cpu_fallback", "aten.cumsum.default", module="model.embeddings", place="outside")
    assert ids(counting, Facts(64, counted_positions=True)) == ["P32"]
    assert ids(counting, Facts(64)) == []


def test_an_fp32_restickify_asks_for_a_narrow_dtype() -> None:
    found = failure("layout", "aten.clone.default", dtypes=("float32",), dtype_run="float32",
                    message="Spyre backend does not support: ReStickifyOpHBM on DataFormats.IEEE_FP32")  # fmt: skip
    assert ids(found, Facts(64)) == ["P56"]


def test_a_fallback_that_no_pattern_removes_is_not_asked_to_be_patched() -> None:
    harmless = failure("cpu_fallback", "aten.arange.default", place="outside")
    assert diagnose_failures([harmless], Facts(64))[0].no_patch
    assert diagnose_failures([failure("unsupported_op")], Facts(64))[0].no_patch is None


def test_rotary_models_pad_heads_by_halves_and_make_tables_and_masks_on_the_host() -> None:
    facts = Facts(32, rotary=True)
    assert ids(failure("layout"), facts) == ["P21"]
    assert ids(failure("unsupported_op", source="masking_utils.py:400", place="outside"), facts) == ["P45"]
    tables = failure("layout", "aten.cat.default", module="rotary_emb", place="outside")
    assert ids(tables, facts) == ["P14"]
    assert ids(tables, Facts(64)) == []


def test_a_rule_of_allowed_pairs_in_the_model_s_own_code_belongs_to_the_masks() -> None:
    pairs = failure(
        "unsupported_dtype", "aten.abs.default", source="modeling_x.py:451", module="model", place="outside",
        shapes=((40, 40),), dtypes=("int64",),
    )  # fmt: skip
    assert ids(pairs, Facts(64, rotary=True)) == ["P45"]
    assert ids(pairs, Facts(64)) == []
    assert ids(replace(pairs, shapes=((2, 40),)), Facts(64, rotary=True)) == []


def test_positions_that_a_rotary_model_counts_on_the_device_are_made_with_its_tables() -> None:
    counted = failure("cpu_fallback", "aten.arange.default", module="model", place="outside")
    assert ids(counted, Facts(64, rotary=True)) == ["P14"]
    assert ids(counted, Facts(64)) == []
    assert ids(counted, Facts(64, rotary=True, parts={"P18": frozenset({""})})) == []


def test_a_fused_projection_is_split_where_its_result_is_taken_apart() -> None:
    facts = Facts(32, rotary=True, fused=384)
    assert ids(failure("layout", shapes=((2, 40, 384),)), facts) == ["P27"]
    assert ids(failure("layout", shapes=((2, 40, 128),)), facts) == ["P21"]


def test_any_operation_of_an_element_wise_module_may_get_another_form() -> None:
    facts = Facts(64, elementwise={"encoder.layer.*.attention": "transformers.activations.MishActivation"})
    assert ids(failure("unsupported_op", "aten.mish.default"), facts) == ["P01"]


def test_refused_look_ups_move_to_the_host() -> None:
    found = failure(
        "layout",
        "aten.embedding.default",
        module="embeddings.token_type_embeddings",
        place="outside",
        dtype_run="float32",
    )
    assert ids(found, Facts(64)) == ["P30"]


def test_a_product_refused_for_a_single_row_asks_for_padded_lengths() -> None:
    alone = failure("shape_limit", "aten.bmm.default")
    assert ids(alone, Facts(64)) == ["P63"]
    assert "P63" not in ids(alone, Facts(32)), "heads that split a stick are another cause"
    assert ids(failure("shape_limit", "aten.bmm.default", place="outside"), Facts(64)) == []


SDPA = "aten.scaled_dot_product_attention.default"
ATTENTION, MLP, NORM, INTEGER = "layers.*.self_attn", "layers.*.mlp", "layers.*.norm", {"dtypes": ("int64",)}
EXPANDED = {"module": ATTENTION, "source": "sdpa_attention.py:20", "shapes": ((2, 1, 2, 40, 64),)}
LIBRARY = {
    "P03": (failure("unsupported_op", "aten.erf.default", module=MLP), MLP),
    "P06": (failure("layout", "aten.split.Tensor", module=MLP), MLP),
    "P10": (failure("unsupported_dtype", "aten.mean.dim", module=NORM, dtypes=("float32",)), NORM),
    "P11": (failure("wrong_values", "aten.layer_norm.default", module=NORM, scalars=("value",)), NORM),
    "P18": (failure("unsupported_op", "aten.stack.default", module=ATTENTION), ATTENTION),
    "P28": (failure("layout", "aten.addmm.default", module="layers.*.attn.c_attn"), "layers.*.attn.c_attn"),
    "P41": (failure("wrong_values", SDPA, module=ATTENTION, scalars=("padding",)), ATTENTION),
    "P42": (failure("wrong_values", SDPA, module=ATTENTION, scalars=("value",)), ATTENTION),
    "P46": (failure("dynamic_shape", "aten.index.Tensor", module="layers.*.output"), "layers.*.output"),
    "P48": (failure("unsupported_dtype", "aten.abs.default", module="block.*.SelfAttention", **INTEGER), "block.*"),
    "P49": (failure("unsupported_op", "aten.gather.default", module=ATTENTION, dtypes=("float16", "int64")), ATTENTION),
    "P50": (failure("unsupported_op", "aten.pow.Tensor_Tensor", module="model", place="outside"), ""),
    "P55": (failure("layout", "aten.expand.default", **EXPANDED), ATTENTION),
    "P60": (failure("wrong_values", "aten.mul.Tensor", module="x.*.q_norm", scalars=("layout",)), "x.*.q_norm"),
}  # fmt: skip


@pytest.mark.parametrize("pattern", LIBRARY)
def test_a_pattern_of_the_library_is_named_where_it_acts_and_nowhere_else(pattern: str) -> None:
    found, place = LIBRARY[pattern]
    assert pattern in ids(found, Facts(64, parts={pattern: frozenset({place})}))
    below = replace(found, module=f"model.{place}".rstrip(".") + found.module.removeprefix(place).removeprefix("model"))
    assert pattern in ids(below, Facts(64, parts={pattern: frozenset({place})}))
    if pattern not in ("P41", "P42"):
        assert pattern not in ids(found, Facts(64))


def test_a_model_that_is_right_and_not_exact_enough_gets_norms_of_one_rounding() -> None:
    rounded = failure("wrong_values", "model", module="model", source="", scalars=("rounding",))
    norms = Facts(64, parts={"P57": frozenset({NORM})})
    assert ids(rounded, norms) == ["P57"]
    assert ids(rounded, Facts(64, parts={"P58": frozenset({NORM})})) == ["P58"]
    assert ids(rounded, Facts(64)) == []
    assert "P57" not in ids(failure("wrong_values", "aten.layer_norm.default", module=NORM, scalars=("value",)), norms)


def test_an_inner_size_that_fills_no_stick_is_padded() -> None:
    refused = failure("shape_limit", "aten.mm.default", shapes=((80, 128), (128, 200)))
    assert patterns_for(refused, Facts(64, inner=200)) == (PatternUse("P22", {"size": 200, "padded": 256}),)
    assert "P22" not in ids(refused, Facts(64))


def test_halves_inside_a_stick_are_turned_by_a_product_and_whole_sticks_are_not() -> None:
    turned = failure("layout", "aten.cat.default", module="layers.*.self_attn")
    assert ids(turned, Facts(64, rotary=True)) == ["P14"]
    assert ids(turned, Facts(64)) == []


def test_a_test_for_infinities_asks_for_a_dtype_of_wider_range() -> None:
    tested = failure("unsupported_op", "aten.isinf.default", module="model.encoder.block.*", dtype_run="float16")
    assert patterns_for(tested, Facts(64)) == (PatternUse("P56", {"dtype": "bfloat16"}),)


def test_a_test_for_infinities_is_left_out_where_the_block_is_a_plain_sequence_without_it() -> None:
    tested = failure("unsupported_op", "aten.isinf.default", module="encoder.block.*", dtype_run="float16")
    assert patterns_for(tested, Facts(64, parts={"P66": frozenset({"encoder.block.*"})})) == (PatternUse("P66"),)


def test_places_that_the_model_itself_counts_for_a_table_are_counted_on_the_host() -> None:
    """GPT-2 and GPT-Neo: a fall-back of their own code, which no pattern was named for."""
    counted = failure("cpu_fallback", "aten.arange.default", module="model", place="outside", dtypes=("int64",))
    assert "P32" in ids(counted, Facts(64, parts={"P32": frozenset({""})}))
    assert "P32" not in ids(counted, Facts(64))


def test_integer_arithmetic_of_a_block_s_bias_is_no_mask() -> None:
    cast = failure("unsupported_dtype", "aten._to_copy.default", module="block.*.SelfAttention", dtypes=("bool",))
    assert ids(cast, Facts(64, parts={"P48": frozenset({"block.*"})})) == ["P48"]
    assert ids(cast, Facts(64)) == ["P40"]


def test_a_convolution_over_tokens_becomes_products_wherever_it_fails() -> None:
    facts = Facts(64, parts={"P51": frozenset({"layers.*.conv"})})
    inner = failure("cpu_fallback", "aten.convolution.default", module="model.layers.*.conv.conv")
    assert ids(inner, facts) == ["P51"]
    assert ids(failure("layout", "aten.split.Tensor", module="model.layers.*.conv"), facts) == ["P51"]
    assert ids(inner, Facts(64)) == []


def test_a_width_that_fills_no_sticks_is_padded_and_heads_only_where_they_are_the_cause() -> None:
    facts = Facts(26, width=312)
    assert ids(failure("layout", "aten.mm.default", shapes=((64, 312), (312, 312))), facts) == ["P23"]
    assert ids(failure("layout", "aten.bmm.default", shapes=((12, 64, 26), (12, 26, 64))), facts) == ["P20"]
    wide = patterns_for(failure("layout", "aten.mm.default", shapes=((64, 312),)), facts)[0]
    assert wide.parameters == {"size": 312, "padded": 320}


def test_masks_are_made_by_the_model_s_own_rule_where_it_takes_no_prepared_one() -> None:
    mask = failure("unsupported_op", source="masking_utils.py:400", place="outside")
    own = Facts(64, parts={"P45": frozenset({""})})
    assert ids(mask, own) == ["P45"]
    assert ids(mask, Facts(64, parts={"P45": frozenset({""}), "P40": frozenset({""})})) == ["P40"]
    counts = Facts(64, parts={p: frozenset({""}) for p in ("P40", "P45", "P50")})
    assert ids(mask, counts) == ["P45"], "P40 takes the caller's mask away from the bias by distance"


def test_rows_masked_by_factors_bring_their_own_masks() -> None:
    facts = Facts(64, parts={"P08": frozenset({"", "attentions.*"})})
    filled = failure("unsupported_dtype", "aten.masked_fill_.Scalar", module="attentions.*", dtypes=("bool",))
    assert ids(filled, facts) == ["P08"]


def test_attention_over_blocks_is_changed_before_the_call() -> None:
    facts = Facts(64, parts={"P97": frozenset({"", "encoder.layer.*.attention"})})
    assert ids(failure("graph_break", "aten.copy_.default", place="outside"), facts)[:1] == ["P97"]
    assert ids(failure("layout", "aten.mm.default", module="encoder.layer.*.output"), facts) == []


def test_patches_of_images_are_padded_and_lengths_of_texts_are_not_asked_for() -> None:
    facts = Facts(64, parts={"P98": frozenset({"embeddings", "encoder"})})
    few = failure("shape_limit", "aten.bmm.default", shapes=((12, 197, 64), (12, 64, 197)))
    assert ids(few, facts) == ["P98"]
    assert ids(few, Facts(64)) == ["P63"]


def test_a_table_of_positions_that_refuses_padded_lengths_is_padded_with_them() -> None:
    facts = Facts(64, parts={"P99": frozenset({"embeddings.position_embedding"})})
    few = failure("shape_limit", "aten.bmm.default", shapes=((8, 77, 64), (8, 64, 77)))
    wrong = failure("wrong_values", "aten.scaled_dot_product_attention.default", scalars=("length",))
    assert ids(few, facts) == ids(wrong, facts) == ["P99"], "which needs P63: one cause, one patch or another"
    assert ids(wrong, Facts(64)) == ["P63"]


def test_sums_of_residuals_that_leave_half_precision_are_divided() -> None:
    facts = Facts(64, parts={"P13": frozenset({"block.*.layer.*.layer_norm"})})
    large = failure("non_finite", "aten.add.Tensor", module="block.*", dtype_run="float16")
    assert "P13" in ids(large, facts)
    assert "P13" not in ids(large, Facts(64))


def test_every_pattern_of_the_library_has_a_row() -> None:
    source = inspect.getsource(patterns)
    without = {p for p in PATTERNS if f'"{p}"' not in source}
    assert without == set(), without


def test_where_patterns_act_is_read_from_the_model() -> None:
    config = T5Config(
        vocab_size=9, d_model=64, d_kv=32, d_ff=72, num_layers=2, num_heads=2, feed_forward_proj="gated-gelu"
    )
    with torch.device("meta"):
        model = T5EncoderModel(config)
    facts = model_facts(model)
    assert facts.parts["P48"] == {"encoder.block.*"}
    assert "encoder.block.*.layer.*.layer_norm" in facts.parts["P10"]
    assert facts.inner == 72
    assert "P11" not in facts.parts
    assert not facts.relative_bias


def test_one_bias_for_all_blocks_is_told_from_a_bias_that_a_block_makes() -> None:
    """The one is P47's, the other P48's."""
    config = MPNetConfig(vocab_size=9, hidden_size=64, num_hidden_layers=1, num_attention_heads=1, intermediate_size=64)
    facts = model_facts(MPNetModel(config))
    assert facts.relative_bias
    assert facts.parts["P47"] == {"encoder"}


@pytest.mark.parametrize("pattern", ["P52", "P96"])
def test_attention_in_a_window_brings_its_masks_with_it(pattern: str) -> None:
    path = "encoder.layer.*.attention.self"
    facts = Facts(64, parts={pattern: frozenset({path})})
    mask = failure("unsupported_op", source="masking_utils.py:400", place="outside", module="encoder")
    assert ids(failure("unsupported_op", "aten.as_strided.default", module=path), facts) == [pattern]
    assert ids(mask, facts) == [pattern]
    assert ids(mask, Facts(64)) == ["P40"]
    assert pattern not in ids(failure("unsupported_op", "aten.pow.Scalar", module="encoder.layer.*"), facts)


def test_attention_that_makes_a_mask_of_pairs_asks_for_no_other() -> None:
    """DeBERTa's convolution blanks padding by a mask of its own; no prepared mask could be given to the model."""
    facts = Facts(64, parts={"P49": frozenset({"encoder"}), "P51": frozenset({"encoder.conv"})})
    blanks = failure("unsupported_op", "aten.masked_fill.Scalar", module="encoder.conv", dtypes=("float16", "bool"))
    pairs = failure("unsupported_op", "aten.bitwise_not.default", module="encoder", dtypes=("bool",), place="outside")
    assert ids(blanks, facts) == ["P51"]
    assert ids(pairs, facts) == ["P49"]
