"""Eager operations: the four outcomes of the op table, and the values of what computes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from sim_backend import numerics
from sim_backend.device import eager, ext
from sim_backend.errors import FallbackWarning, Unsupported

pytestmark = [pytest.mark.usefixtures("_quiet_int64"), pytest.mark.fact("3.1", "3.7")]


def half(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random fp16 on the device, and the float32 values it holds there."""
    t = torch.randn(shape).half().to("spyre")
    return t, ext.to_compute(t).clone()


POINTWISE = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: 1.0 - x * 1.0 - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / (y.abs() + 1.0),
    "exp": lambda x, y: torch.exp(x),
    "sigmoid": lambda x, y: torch.sigmoid(x),
    "tanh": lambda x, y: torch.tanh(y),
    "relu": lambda x, y: torch.relu(x),
    "silu": lambda x, y: F.silu(x),
    "maximum": lambda x, y: torch.maximum(x, y),
    "where": lambda x, y: torch.where(x > y, x, y),
    "softmax": lambda x, y: torch.softmax(x, -1),
    "mean": lambda x, y: x.mean(-1),
    "sum": lambda x, y: x.sum(0),
    "amax": lambda x, y: x.amax(1),
    "matmul": lambda x, y: x @ y.transpose(-1, -2),
    "linear": lambda x, y: F.linear(x, y, y[:, 0]),
    "layer_norm": lambda x, y: F.layer_norm(x, (x.shape[-1],), y[0], y[1]),
    "clamp": lambda x, y: x.clamp(-0.5, 0.5),
    "square": lambda x, y: x**2,
}


@pytest.mark.parametrize("name", sorted(POINTWISE))
def test_values_agree_with_float32_within_dl16_rounding(name: str) -> None:
    (x, x32), (y, y32) = half(8, 8), half(8, 8)
    expected = POINTWISE[name](x32, y32)
    result = POINTWISE[name](x, y)
    assert result.dtype == torch.float16
    torch.testing.assert_close(ext.to_compute(result), expected, rtol=6e-3, atol=6e-3)


def test_a_single_operation_is_the_float32_result_rounded_once_to_dl16() -> None:
    (x, x32), (y, y32) = half(64, 64), half(64, 64)
    assert torch.equal(ext.to_compute(x @ y), numerics.round_dl16(x32 @ y32))
    assert torch.equal(ext.to_compute(torch.exp(x)), numerics.round_dl16(torch.exp(x32)))


def test_results_beyond_fp16_stay_finite_on_the_device() -> None:
    big = torch.full((4,), 60000.0, dtype=torch.float16).to("spyre")
    assert ext.to_compute(big * big).isfinite().all()
    assert (big * big).cpu().isinf().all()


def test_overflow_of_the_device_range_is_nan() -> None:
    big = torch.full((4,), 60000.0, dtype=torch.float16).to("spyre")
    assert ext.to_compute(big * big * big).isnan().all()


def test_moves_keep_codes_bit_for_bit() -> None:
    x, _ = half(6, 4)
    index = torch.tensor([2, 0]).to("spyre")
    codes = ext.cpu_alias(x)
    assert torch.equal(ext.cpu_alias(torch.cat([x, x])), torch.cat([codes, codes]))
    assert torch.equal(ext.cpu_alias(x.index_select(0, index)), codes[[2, 0]])
    assert torch.equal(ext.cpu_alias(F.embedding(index, x)), codes[[2, 0]])
    assert torch.equal(ext.cpu_alias(x.flip(0)), codes.flip(0))
    assert torch.equal(ext.cpu_alias(x[index]), codes[[2, 0]])


def test_joining_dtypes_promotes_instead_of_moving_codes() -> None:
    x, x32 = half(3, 1)
    joined = torch.cat([x, torch.tensor([[1], [2]]).to("spyre")])
    assert joined.dtype == torch.float16
    assert torch.equal(ext.to_compute(joined), torch.cat([x32, torch.tensor([[1.0], [2.0]])]))


def test_in_place_and_out_forms_write_their_argument() -> None:
    x, x32 = half(4, 4)
    returned = x.add_(1.0)
    assert returned is x
    assert torch.equal(ext.to_compute(x), numerics.round_dl16(x32 + 1.0))
    out = torch.empty(4, 4, dtype=torch.float16, device="spyre")
    assert torch.mul(x, 2.0, out=out) is out
    assert torch.equal(ext.to_compute(out), numerics.round_dl16(ext.to_compute(x) * 2.0))
    x[1].zero_()
    assert x.cpu()[1].eq(0).all()
    assert x.cpu()[0].ne(0).any()


def test_fp32_computes_only_where_the_dtype_table_says() -> None:
    x = torch.randn(4, 4).to("spyre")
    assert torch.equal((x + x).cpu(), x.cpu() + x.cpu())
    with pytest.raises(Unsupported, match=r"Spyre backend does not support: batchmatmul on DataFormats.IEEE_FP32"):
        x @ x
    with pytest.raises(Unsupported, match=r"tanh on DataFormats.IEEE_FP32"):
        torch.tanh(x)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.uint8])
def test_small_integers_do_not_compute(dtype: torch.dtype) -> None:
    x = torch.ones(4, dtype=dtype).to("spyre")
    with pytest.raises(Unsupported, match="exp on DataFormats"):
        torch.exp(x)


def test_integer_results_are_wrapped_to_32_bits() -> None:
    x = torch.tensor([2**31 - 1], dtype=torch.int64).to("spyre")
    assert (x + 1).cpu().tolist() == [-(2**31)]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: F.gelu(x), "aten::gelu"),
        (lambda x: x.clamp_min(0.0), "aten::clamp_min"),
        (lambda x: x.sort(), "aten::sort"),
        (lambda x: x.masked_fill_(x > 0, 0.0), "aten::masked_fill.Scalar"),
        (lambda x: x.log1p_(), "aten::log1p"),
        (lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]), "aten::scaled_dot_product_attention"),
    ],
)
def test_a_missing_operation_raises_with_the_users_name(call, name: str) -> None:
    x, _ = half(4, 64)
    with pytest.raises(NotImplementedError) as caught:
        call(x)
    assert str(caught.value).startswith(f"Could not run '{name}' with arguments from the 'spyre' backend")


def test_a_fallback_warns_counts_and_is_right() -> None:
    x, _ = half(3, 4)
    torch.spyre.reset_fallback_counts()
    with pytest.warns(FallbackWarning, match=r"^aten.sin.default is falling back to cpu$"):
        result = torch.sin(x)
    torch.testing.assert_close(result.cpu(), torch.sin(x.cpu()), rtol=2e-3, atol=1e-3)
    with pytest.warns(FallbackWarning, match=r"aten.repeat.default"):
        assert x.repeat(2, 1).shape == (6, 4)
    assert torch.spyre.fallback_counts() == {"aten.sin.default": 1, "aten.repeat.default": 1}


def test_fallback_warnings_can_be_silenced_but_not_the_count(monkeypatch) -> None:
    monkeypatch.setenv("TORCH_SPYRE_FALLBACK_WARN", "0")
    torch.spyre.reset_fallback_counts()
    torch.cos(half(2, 2)[0])
    assert torch.spyre.fallback_counts() == {"aten.cos.default": 1}


def test_a_cube_is_the_fourth_power_in_the_default_profile_and_a_square_is_right() -> None:
    x = torch.tensor([2.0, -3.0], dtype=torch.float16).to("spyre")
    assert torch.pow(x, 3).cpu().tolist() == [16.0, 81.0]
    assert torch.pow(x, 2).cpu().tolist() == [4.0, 9.0]
    assert x.clone().pow_(3).cpu().tolist() == [16.0, 81.0]
    with pytest.raises(RuntimeError, match=r"Invoked sdsc_fused_pow_0 which contains unimplemented operation pow"):
        torch.pow(x, 2.5)


def test_the_ideal_profile_refuses_nothing_and_equals_the_cpu_in_fp32(run_python) -> None:
    run_python(
        """
        import torch, sim_backend, torch.nn.functional as F
        sim_backend.use_profile("profile-ideal")
        x = torch.randn(2, 4, 8, 16)
        s = x.to("spyre")
        for f in (F.gelu, torch.sin, lambda t: torch.pow(t, 3), lambda t: t @ t.transpose(-1, -2),
                  lambda t: F.scaled_dot_product_attention(t, t, t), lambda t: t.clamp_min(0.1),
                  lambda t: t.sort().values):
            torch.testing.assert_close(f(s).cpu(), f(x), rtol=1e-6, atol=1e-6)
        """
    )


def test_devices_cannot_be_mixed_but_cpu_scalars_can() -> None:
    x, _ = half(2, 2)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        x + torch.ones(2, 2)
    assert (x * torch.tensor(2.0)).dtype == torch.float16


def test_random_tensors_come_from_the_seeded_host_generator() -> None:
    torch.manual_seed(11)
    first = torch.rand(5, device="spyre").cpu()
    torch.manual_seed(11)
    assert torch.equal(torch.rand(5, device="spyre").cpu(), first)
    generator = torch.Generator(device="spyre").manual_seed(3)
    a = torch.rand(5, device="spyre", generator=generator).cpu()
    assert torch.equal(torch.rand(5, device="spyre", generator=generator.manual_seed(3)).cpu(), a)


def test_factories_and_fills() -> None:
    assert torch.full((2,), 1.5, dtype=torch.float16, device="spyre").cpu().tolist() == [1.5, 1.5]
    assert torch.zeros(2, device="spyre").cpu().tolist() == [0.0, 0.0]
    assert torch.ones_like(torch.empty(2, dtype=torch.bfloat16, device="spyre")).cpu().tolist() == [1.0, 1.0]
    assert torch.tensor([1, 2], device="spyre").cpu().tolist() == [1, 2]


def test_comparisons_give_bool() -> None:
    x, x32 = half(10)
    assert torch.equal((x > 0).cpu(), x32 > 0)
    assert (x == x).dtype == torch.bool


def test_compute_runs_any_operation_whatever_the_profile_says() -> None:
    x, x32 = half(4, 4)
    result = eager.compute(torch.ops.aten.gelu.default, (x,), {})
    assert torch.equal(ext.to_compute(result), numerics.round_dl16(F.gelu(x32)))
    values, indices = eager.compute(torch.ops.aten.topk.default, (x, 2), {})
    assert values.dtype == torch.float16
    assert indices.dtype == torch.int64
    out = torch.empty(4, 4, dtype=torch.float16, device="spyre")
    assert eager.compute(torch.ops.aten.mm.out, (x, x), {"out": out}) is out


def test_dtype_arguments_decide_the_format_of_the_result() -> None:
    x, x32 = half(4, 4)
    assert torch.softmax(x, -1, dtype=torch.float32).dtype == torch.float32
    total = x.sum(-1, dtype=torch.float32)
    torch.testing.assert_close(total.cpu(), x32.sum(-1))


def test_inference_mode_works() -> None:
    x, _ = half(4, 8)
    layer = torch.nn.Linear(8, 2).half().to("spyre")
    with torch.inference_mode():
        assert layer(x).shape == (4, 2)


@pytest.mark.fact("3.2")
def test_reductions_of_one_value_and_rounded_quotients_are_no_fault_of_ours() -> None:
    one = torch.tensor(2.0, dtype=torch.float16).to("spyre")
    assert one.sum().item() == one.mean().item() == one.mean(-1).item() == 2.0
    with pytest.raises(NotImplementedError, match=r"aten::div\.Tensor_mode"):
        torch.div(one, one, rounding_mode="floor")
