"""The ideal DL16 executor: bit-exact rounding, every operator rounded, the model left as it was."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.verification.ideal import (
    DL16_MAX,
    DL16_MIN,
    Conversion,
    IdealDL16,
    ideal_run,
    round_dl16,
    yardstick_run,
)
from pipeline.verification.measures import lowest_token_cosine, relative_error
from pipeline.verification.parts import reference_run
from pipeline.verification.probes import ProbeBatch

NAN = float("nan")
VECTORS = [
    (1.0, 1.0),
    (-1.0, -1.0),
    (1 + 1 / 512, 1 + 1 / 512),
    (1 + 1 / 1024, 1 + 1 / 512),  # a tie goes up
    (-(1 + 1 / 1024), -(1 + 1 / 512)),  # on the magnitude
    (1 + 1 / 1025, 1.0),
    (65504.0, 65536.0),
    (1023.5, 1024.0),
    (0.0, 0.0),
    (2.0**-31, DL16_MIN),  # fraction 0 at exponent 0 is zero, the nearest value is the smallest
    (1e-10, 0.0),
    (3e-10, DL16_MIN),
    (-3e-10, -DL16_MIN),
    (3.4e38, DL16_MAX),
    (float("-inf"), -DL16_MAX),
    (1e-5, 9.99868e-6),
]


@pytest.mark.parametrize(("value", "expected"), VECTORS)
def test_rounding_of_single_values(value: float, expected: float) -> None:
    assert round_dl16(torch.tensor([value])).item() == pytest.approx(expected, rel=1e-6, abs=0)


def test_nan_stays() -> None:
    assert round_dl16(torch.tensor([NAN])).isnan().all()


@settings(max_examples=200, deadline=None)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-8e9, max_value=8e9))
def test_rounding_is_nearest_and_idempotent(value: float) -> None:
    rounded = round_dl16(torch.tensor([value], dtype=torch.float32))
    assert torch.equal(round_dl16(rounded), rounded)
    assert abs(rounded.item() - value) <= max(abs(value) * 2.0**-10, DL16_MIN / 2)


def test_rounding_leaves_its_input() -> None:
    x = torch.tensor([1.0001])
    round_dl16(x)
    assert x.item() != 1.0


@pytest.mark.parametrize(
    ("dtype", "rounding", "value", "expected"),
    [
        (torch.float32, "nearest_up", 1 + 3 / 1024, 1 + 4 / 1024),
        (torch.float32, "nearest_even", 1 + 1 / 1024, 1.0),
        (torch.float32, "nearest_even", 1 + 3 / 1024, 1 + 4 / 1024),
        (torch.float16, "truncate", 1 + 3 / 1024, 1 + 2 / 1024),
        (torch.float16, "truncate", -(1 + 3 / 1024), -(1 + 2 / 1024)),
        (torch.float16, "nearest_up", 1.00098, 1 + 2 / 1024),  # rounded twice: fp16 makes every rest a tie
        (torch.bfloat16, "truncate", 1 + 1 / 128, 1 + 1 / 128),
    ],
)
def test_weights_reach_the_device_by_the_profile_s_converter(
    dtype: torch.dtype, rounding: str, value: float, expected: float
) -> None:
    weight = torch.tensor([value])
    assert Conversion(dtype, rounding).apply(weight).item() == expected
    assert weight.item() == pytest.approx(value), "a copy is converted"


def test_an_unknown_rounding_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown rounding 'odd'"):
        Conversion(torch.float16, "odd").apply(torch.ones(1))


def test_both_executors_round_alike() -> None:
    from sim_backend import numerics

    bits = torch.randint(-(2**31), 2**31, (20_000,), generator=torch.Generator().manual_seed(8), dtype=torch.int64)
    values = bits.to(torch.int32).view(torch.float32)
    within = values[values.isfinite() & (values.abs() < DL16_MAX * (1 - 2.0**-10))]
    assert torch.equal(round_dl16(within), numerics.round_dl16(within))


def test_operators_of_several_device_operations_round_after_each() -> None:
    generator = torch.Generator().manual_seed(4)
    x, w, b = (round_dl16(torch.randn(n, 64, generator=generator)) for n in (16, 64, 1))
    with IdealDL16():
        linear = torch.nn.functional.linear(x, w, b[0])
        softmax = torch.softmax(x, -1)
        norm = torch.nn.functional.layer_norm(x, (64,), w[0], b[0])
    assert torch.equal(linear, round_dl16(round_dl16(x @ w.t()) + b))
    for found, exact in ((softmax, torch.softmax(x, -1)), (norm, torch.nn.functional.layer_norm(x, (64,), w[0], b[0]))):
        assert torch.equal(found, round_dl16(found))
        assert torch.allclose(found, exact, rtol=2e-2, atol=2e-2)
        assert not torch.equal(found, round_dl16(exact))


def test_every_operator_is_rounded_and_views_are_not_written() -> None:
    x = torch.tensor([[1.0, 1.0001], [1.0003, 1.0]])
    with IdealDL16():
        product = x * 1.0001
        view = x.t()
    assert torch.equal(product, round_dl16(product))
    assert view[1, 0] == x[0, 1] == torch.tensor(1.0001)


def test_ideal_run_is_near_and_rounded_and_leaves_the_model(tiny_bert: Any, bert_probe: ProbeBatch) -> None:
    before = {k: v.clone() for k, v in tiny_bert.state_dict().items()}
    implementation = tiny_bert.config._attn_implementation
    reference, ideal = reference_run(tiny_bert, bert_probe.inputs), ideal_run(tiny_bert, bert_probe.inputs)
    assert torch.equal(ideal, round_dl16(ideal))
    assert 1 - 1e-3 < lowest_token_cosine(ideal, reference, bert_probe.mask) < 1
    assert 1e-5 < relative_error(ideal, reference, bert_probe.mask) < 0.05
    assert tiny_bert.config._attn_implementation == implementation
    assert all(torch.equal(v, before[k]) for k, v in tiny_bert.state_dict().items())
    assert torch.equal(reference_run(tiny_bert, bert_probe.inputs), reference)


def test_rotary_tables_are_made_in_fp32(tiny_llama: Any) -> None:
    ids = torch.arange(5, 155).unsqueeze(0)
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    ideal, reference = ideal_run(tiny_llama, batch), reference_run(tiny_llama, batch)
    assert lowest_token_cosine(ideal, reference, batch["attention_mask"]) > 1 - 1e-3


def test_a_model_beyond_fp16_is_measured_against_bf16(tiny_bert: Any, bert_probe: ProbeBatch) -> None:
    """A weight of 1e5 is infinite in fp16, so no device that is fed from fp16 could be ideal: bf16 is the yardstick."""
    half = Conversion(torch.float16)
    assert yardstick_run(tiny_bert, bert_probe.inputs, half).name == "dl16"
    big = copy.deepcopy(tiny_bert)
    big.encoder.layer[0].attention.self.value.weight.data[0] = 1e5
    reference = reference_run(big, bert_probe.inputs)
    assert reference[bert_probe.mask.bool()].isfinite().all()
    found = yardstick_run(big, bert_probe.inputs, half)
    assert found.name == "bfloat16"
    assert found.output.dtype == torch.float32
    assert found.output[bert_probe.mask.bool()].isfinite().all()
    assert next(big.parameters()).dtype == torch.float32, "the model is unchanged"


def test_other_dtypes_are_refused(tiny_bert: Any, bert_probe: ProbeBatch) -> None:
    with pytest.raises(ValueError, match=r"fp32 parameters.*float16"):
        ideal_run(copy.deepcopy(tiny_bert).half(), bert_probe.inputs)
