"""Copies between host and device: formats, strides, refusals, layout tags."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator

import pytest
import torch

from sim_backend import numerics
from sim_backend.device import eager, ext
from sim_backend.device.allow import allowed
from sim_backend.device.casts import Casts
from sim_backend.device.start import state
from sim_backend.errors import DowncastWarning
from sim_backend.numerics import Infinity, Rounding
from sim_backend.profiles import active, load_profile

start_module = sys.modules["sim_backend.device.start"]  # the package's `start` is the function

pytestmark = [pytest.mark.usefixtures("_quiet_int64"), pytest.mark.fact("1.6", "5.3")]


def on_device(x: torch.Tensor) -> torch.Tensor:
    return x.to("spyre")


def test_fp16_and_bf16_are_held_as_dl16_codes() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        t = on_device(torch.tensor([1.0, -1.0, 2.0**-8], dtype=dtype))
        assert (ext.cpu_alias(t).to(torch.int32) & 0xFFFF).tolist() == [0x3E00, 0xBE00, 0x2E00]


def test_the_alias_has_the_bytes_sizes_and_strides_of_the_tensor() -> None:
    t = on_device(torch.arange(12, dtype=torch.float32).view(3, 4))[1:, ::2]
    alias = ext.cpu_alias(t)
    assert (alias.shape, alias.stride(), alias.device.type) == (t.shape, t.stride(), "cpu")
    alias.fill_(5.0)
    assert t.cpu().eq(5.0).all()


def test_an_alias_keeps_the_memory_alive() -> None:
    alias = ext.cpu_alias(on_device(torch.full((1000,), 3.0)))
    other = [on_device(torch.zeros(1000)) for _ in range(5)]
    assert alias.eq(3.0).all()
    assert len(other) == 5


@pytest.mark.fact("E-20")
@pytest.mark.parametrize("on", [True, False])
def test_e20_has_a_switch_of_its_own(on: bool, run_python) -> None:
    overrides = {} if on else {"errata.E-20": None}
    found = run_python(f"""
    import torch, sim_backend
    sim_backend.use_profile("profile-2026-08", {overrides})
    x = torch.tensor([float("-inf"), -2.0]).bfloat16().to("spyre")
    print((x + x).cpu().tolist(), x.cpu().tolist())
    """)
    twice, once = (eval(text + "]", {"nan": float("nan")}) for text in found.strip().split("]")[:2])
    assert twice[1:] == [-4.0]
    assert math.isnan(twice[0]) if on else twice[0] == -(2.0**26)
    assert once[0] < -4e9 if on else once[0] == -(2.0**25)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_plain_dtypes_come_back_unchanged(dtype: torch.dtype) -> None:
    x = torch.arange(24).view(2, 3, 4).to(dtype)
    assert torch.equal(on_device(x).cpu(), x)
    assert torch.equal(on_device(x.transpose(0, 2)).cpu(), x.transpose(0, 2))
    assert torch.equal(on_device(x).transpose(0, 2)[1:].cpu(), x.transpose(0, 2)[1:])


def test_bool_comes_back_unchanged() -> None:
    x = torch.tensor([True, False, True])
    assert torch.equal(on_device(x).cpu(), x)


def set_policy(rounding: Rounding, infinity: Infinity) -> None:
    ext.set_policy(rounding, Rounding.NEAREST_EVEN, infinity, [])


@pytest.fixture
def _august_policy() -> Iterator[None]:
    yield
    start_module.apply_policies(ext, load_profile())


# 0.1669 is a tie between two codes for fp16; 0x3C00 + 1 ulp, the largest value, the infinities and NaN of fp16
HALF = [1.0, -1.0009765625, 1.0029296875, 65504.0, -65504.0, torch.inf, -torch.inf, torch.nan]
FINITE = {
    Rounding.TRUNCATE: [0x3E00, 0xBE00, 0x3E01, 0x5DFF, 0xDDFF],
    Rounding.NEAREST_UP: [0x3E00, 0xBE01, 0x3E02, 0x5E00, 0xDE00],
    Rounding.NEAREST_EVEN: [0x3E00, 0xBE00, 0x3E02, 0x5E00, 0xDE00],
}
SPECIAL = {
    Infinity.REBIAS: [0x5E00, 0xDE00, 0x5F00],
    Infinity.SATURATE_FINITE: [0x6FFF, 0xEFFF, 0x6FFF],
    Infinity.PRESERVE: [0x7FFF, 0xFFFF, 0x7FFF],
}


@pytest.mark.usefixtures("_august_policy")
@pytest.mark.parametrize("rounding", list(Rounding))
@pytest.mark.parametrize("infinity", list(Infinity))
def test_every_pair_of_policies_gives_its_codes(rounding: Rounding, infinity: Infinity) -> None:
    set_policy(rounding, infinity)
    codes = (ext.cpu_alias(on_device(torch.tensor(HALF, dtype=torch.float16))).int() & 0xFFFF).tolist()
    assert codes == FINITE[rounding] + SPECIAL[infinity]


@pytest.mark.usefixtures("_august_policy")
def test_the_policy_decides_what_comes_back() -> None:
    x = torch.tensor([-65504.0, torch.inf, torch.nan], dtype=torch.float16)
    back = {}
    for policy in ((Rounding.NEAREST_UP, Infinity.REBIAS), (Rounding.TRUNCATE, Infinity.PRESERVE)):
        set_policy(*policy)
        back[policy[1]] = on_device(x).cpu().tolist()
    assert back == {Infinity.REBIAS: [-torch.inf] + [torch.inf] * 2, Infinity.PRESERVE: [-65472.0] + [torch.inf] * 2}


def test_nan_and_infinity_of_fp32_are_kept() -> None:
    x = torch.tensor([torch.nan, torch.inf, -torch.inf])
    assert torch.equal(on_device(x).cpu(), x) or on_device(x).cpu()[1:].tolist() == x[1:].tolist()
    assert on_device(x).cpu()[0].isnan()


def test_fp16_copies_round_as_the_profile_says() -> None:
    x = torch.randn(1000).half()
    expected = numerics.to_host(
        numerics.from_host(x, numerics.Rounding.TRUNCATE, numerics.Infinity.SATURATE_FINITE), torch.float16
    )
    assert torch.equal(on_device(x).cpu(), expected)


def test_a_host_minus_infinity_is_finite_on_the_device_and_infinite_again_on_the_host() -> None:
    t = on_device(torch.tensor([-torch.inf, -65504.0], dtype=torch.float16))
    assert ext.to_compute(t).tolist() == [-33_521_664.0, -65472.0]
    assert t.cpu().tolist() == [-torch.inf, -65472.0]


def test_bfloat16_comes_back_unchanged() -> None:
    x = torch.randn(100).bfloat16()
    assert torch.equal(on_device(x).cpu(), x)


def test_int64_is_wrapped_to_32_bits() -> None:
    x = torch.tensor([1, -1, 2**31 - 1, 2**31, -(2**31), 2**40 + 7])
    assert on_device(x).cpu().tolist() == [1, -1, 2**31 - 1, -(2**31), -(2**31), 7]


@pytest.fixture
def _told_nothing(monkeypatch) -> None:
    """A process that has not been warned of int64 yet."""
    monkeypatch.setattr(state, "downcast_warning", True)
    ext.set_callbacks(Casts(active()).check, start_module._warn_downcast)


@pytest.mark.fact("5.5")
@pytest.mark.usefixtures("_told_nothing")
def test_int64_warns_once_per_process() -> None:
    numbers = torch.ones(2, dtype=torch.int64)
    torch.spyre.set_downcast_warning(True)
    with pytest.warns(DowncastWarning, match="^Backend Spyre does not support int64; downcasting to int32$"):
        on_device(numbers)
    on_device(numbers)  # a warning would be an error


@pytest.mark.fact("5.5", "5.1")
@pytest.mark.usefixtures("_told_nothing")
def test_the_int64_warning_can_be_switched_off(monkeypatch) -> None:
    torch.spyre.set_downcast_warning(False)
    assert on_device(torch.ones(2, dtype=torch.int64)).cpu().tolist() == [1, 1]
    monkeypatch.setenv("TORCH_SPYRE_DOWNCAST_WARN", "0")
    assert not start_module._State().downcast_warning


@pytest.mark.parametrize(
    ("dtype", "name"),
    [(torch.float64, "Double"), (torch.complex64, "ComplexFloat"), (torch.complex128, "ComplexDouble")],
)
def test_dtypes_without_a_device_format_are_refused_by_name(dtype: torch.dtype, name: str) -> None:
    with pytest.raises(RuntimeError, match=f"Spyre backend does not support dtype {name}"):
        torch.zeros(2, dtype=dtype).to("spyre")
    with pytest.raises(RuntimeError, match=f"Spyre backend does not support dtype {name}"):
        torch.empty(2, dtype=dtype, device="spyre")


def test_a_copy_with_a_cast_converts_on_the_host() -> None:
    x = torch.randn(50)
    assert torch.equal(x.to("spyre", torch.float16).cpu(), on_device(x.half()).cpu())
    assert torch.equal(on_device(x.half()).to("cpu", torch.float32), on_device(x.half()).cpu().float())


def test_device_conversions_of_the_table_are_silent() -> None:
    half = on_device(torch.tensor([0.0, 1.5, -2.0], dtype=torch.float16))
    assert half.float().cpu().tolist() == [0.0, 1.5, -2.0]
    assert half.bfloat16().cpu().tolist() == [0.0, 1.5, -2.0]
    assert half.bool().cpu().tolist() == [False, True, True]


def test_fp32_to_fp16_on_the_device_keeps_what_fp16_cannot_hold() -> None:
    wide = on_device(torch.tensor([1e6, 1e-9]))
    half = wide.half()
    assert ext.to_compute(half).tolist() == numerics.round_dl16(torch.tensor([1e6, 1e-9])).tolist()
    assert half.bfloat16().float().cpu().isfinite().all()


def test_other_conversions_warn_and_count() -> None:
    from sim_backend.errors import FallbackWarning

    torch.spyre.reset_fallback_counts()
    numbers = on_device(torch.tensor([1, 2], dtype=torch.int32))
    with pytest.warns(FallbackWarning, match=r"conversion from torch.int32 to torch.float32 is falling back to cpu"):
        assert numbers.float().cpu().tolist() == [1.0, 2.0]
    assert torch.spyre.fallback_counts() == {"aten._to_copy.default": 1}
    with allowed():
        numbers.half()
    assert sum(torch.spyre.fallback_counts().values()) == 1


@pytest.mark.fact("E-33")
def test_copies_into_views_write_the_view_and_nothing_else() -> None:
    base = on_device(torch.zeros(4, 6, dtype=torch.float16))
    base[1:3, ::2].copy_(on_device(torch.full((2, 3), 2.0, dtype=torch.float16)))
    base[3].copy_(torch.full((6,), 7.0, dtype=torch.float16))
    expected = torch.zeros(4, 6, dtype=torch.float16)
    expected[1:3, ::2] = 2.0
    expected[3] = 7.0
    assert torch.equal(base.cpu(), expected)


@pytest.mark.fact("E-32", "E-31")
def test_views_with_an_offset_are_read_where_they_begin() -> None:
    rows = on_device(torch.arange(256, dtype=torch.float16).view(4, 64))
    first, second = rows.narrow(0, 0, 2).clone(), rows.narrow(0, 2, 2).clone()
    assert torch.equal(first.cpu(), rows.cpu()[:2])
    assert torch.equal(second.cpu(), rows.cpu()[2:])
    assert torch.equal(rows[3].neg().cpu(), -rows.cpu()[3])


@pytest.mark.fact("E-38")
def test_conversions_on_the_device_are_right_in_august() -> None:
    x = torch.randn(100)
    assert torch.allclose(on_device(x).half().float().cpu(), x, rtol=2e-3)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2fnuz])
def test_fp8_comes_back_unchanged(dtype: torch.dtype) -> None:
    x = torch.randn(10).to(dtype)
    assert torch.equal(on_device(x).cpu().view(torch.uint8), x.view(torch.uint8))


def test_a_copy_broadcasts() -> None:
    target = on_device(torch.zeros(3, 4, dtype=torch.float16))
    target.copy_(on_device(torch.ones(4, dtype=torch.float16)))
    assert target.cpu().eq(1.0).all()
    target.copy_(torch.full((1, 4), 2.0, dtype=torch.float16))
    assert target.cpu().eq(2.0).all()


@pytest.mark.fact("E-57")
def test_empty_tensors_copy_to_nothing() -> None:
    assert on_device(torch.empty(0, 3)).chunk(3, 1)[0].shape == (0, 1)
    assert on_device(torch.empty(0, 3, dtype=torch.float16)).cpu().shape == (0, 3)


def test_layout_tags_belong_to_the_allocation_and_end_with_a_copy_into_it() -> None:
    t = on_device(torch.ones(4, 4, dtype=torch.float16))
    assert ext.layout_tag(t) == 0
    ext.set_layout_tag(t, 7)
    assert (ext.layout_tag(t), ext.layout_tag(t[1:].t())) == (7, 7)
    assert ext.layout_tag(t.clone()) == 0
    assert ext.layout_tag(t) == 7
    t.copy_(torch.zeros(4, 4, dtype=torch.float16))
    assert ext.layout_tag(t) == 0


def test_item_and_tolist_decode() -> None:
    t = on_device(torch.tensor([[1.5, -2.0]], dtype=torch.float16))
    assert t[0, 1].item() == -2.0
    assert t.tolist() == [[1.5, -2.0]]
    assert float(on_device(torch.tensor(3, dtype=torch.int64)).item()) == 3.0


def test_pinned_tensors_are_refused() -> None:
    with pytest.raises(RuntimeError, match="Pin memory can only be on CPU"):
        torch.empty(2, device="spyre", pin_memory=True)
    with pytest.raises(RuntimeError, match=r"cannot pin 'spyreFloatType' only dense CPU tensors can be pinned"):
        on_device(torch.ones(2)).pin_memory()


SPARSE = {
    "coo": lambda x: x.to_sparse().to("spyre"),
    "csr": lambda x: x.to_sparse_csr().to("spyre"),
    "csc": lambda x: x.to_sparse_csc().to("spyre"),
    "bsr": lambda x: x.to_sparse_bsr((2, 2)).to("spyre"),
    "bsc": lambda x: x.to_sparse_bsc((2, 2)).to("spyre"),
    "empty": lambda x: torch.empty(2, 2, device="spyre", layout=torch.sparse_coo),
}


@pytest.mark.fact("3.7")
@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
@pytest.mark.parametrize("make", list(SPARSE))
def test_tensors_that_are_not_strided_are_refused(make: str) -> None:
    with pytest.raises(RuntimeError, match=r"^Non strided layout not supported$"):
        SPARSE[make](torch.eye(4))


@pytest.fixture
def _own_prefix_copies() -> Iterator[None]:
    """Afterwards the device asks about prefixes what it asked before."""
    yield
    ext.set_prefix_copy(eager._copy_prefix)


@pytest.mark.usefixtures("_own_prefix_copies")
def test_a_copy_of_the_first_part_of_a_storage_can_be_taken_over() -> None:
    rows, target = on_device(torch.ones(4, 64)), on_device(torch.zeros(2, 64))
    seen: list[tuple[int, ...]] = []

    def take_over(source: torch.Tensor, _: torch.Tensor) -> bool:
        seen.append(tuple(source.shape))
        return True

    ext.set_prefix_copy(take_over)
    sums = [target.zero_().copy_(s).cpu().sum().item() for s in (rows[:2], rows[2:], rows[:2] * 1.0)]
    assert (seen, sums) == ([(2, 64)], [0.0, 128.0, 128.0])
