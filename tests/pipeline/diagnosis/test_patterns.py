"""The pattern table looks at failures and structure only, never at a model's name."""

from __future__ import annotations

import inspect
import re

from agents.types import Failure, FailureKind
from pipeline.diagnosis import patterns
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
    assert ids(failure("unsupported_op", "aten.clamp_min.default", source="embedder.py:40"), Facts(64)) == ["P80"]


def test_each_silent_cause_has_its_own_pattern() -> None:
    sdpa = "aten.scaled_dot_product_attention.default"
    assert ids(failure("wrong_values", sdpa, scalars=("layout",)), Facts(64)) == ["P54"]
    assert ids(failure("wrong_values", sdpa, scalars=("length",)), Facts(64)) == ["P63"]
    assert ids(failure("wrong_values", "block", scalars=("border",)), Facts(64)) == ["P61"]


def test_padding_side_follows_causality() -> None:
    sdpa = failure("wrong_values", "aten.scaled_dot_product_attention.default", scalars=("length",))
    assert patterns_for(sdpa, Facts(64, causal=True))[0].parameters["side"] == "left"


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


def test_attention_over_chunks_of_a_window_becomes_full_and_its_masks_come_with_it() -> None:
    facts = Facts(64, chunked=frozenset({"encoder.layer.*.attention.self"}))
    inside = failure("unsupported_op", "aten.as_strided.default", module="encoder.layer.*.attention.self")
    mask = failure("unsupported_op", source="masking_utils.py:400", place="outside", module="encoder")
    assert ids(inside, facts) == ids(mask, facts) == ["P52"]
    assert ids(inside, Facts(64)) == []
    assert ids(failure("unsupported_op", "aten.pow.Scalar"), facts) == [], "the block beside its attention"
