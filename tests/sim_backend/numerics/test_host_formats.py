"""fp16 and bf16 to DL16 and back under the profile's policies, every bit pattern against an independent model."""

from __future__ import annotations

import math

import pytest
import torch

from sim_backend.numerics import Infinity, Rounding, decode, encode, from_host, round_dl16, to_host

pytestmark = pytest.mark.fact("1.6")

PATTERNS = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
MERGED, SATURATED, BFLOAT_SATURATED = 0x7FFF, 0x6FFF, 0x7DFF
POLICIES = [(r, i) for r in Rounding for i in Infinity]


def rounded(magnitude: float, rounding: Rounding) -> int:
    """The code of a finite magnitude, by exact arithmetic on Python floats."""
    if magnitude == 0.0:
        return 0
    exponent = math.floor(math.log2(magnitude))
    units = magnitude / 2.0 ** (exponent - 9)
    down = math.floor(units)
    rest = units - down
    up = {Rounding.TRUNCATE: False, Rounding.NEAREST_UP: rest >= 0.5}.get(
        rounding, rest > 0.5 or (rest == 0.5 and down % 2 == 1)
    )
    return ((exponent + 31) << 9) + (down - 512) + int(up)


def expected_half(pattern: int, rounding: Rounding, infinity: Infinity) -> int:
    sign, exponent, fraction = pattern & 0x8000, (pattern >> 10) & 31, pattern & 0x3FF
    if exponent == 31 and infinity is not Infinity.REBIAS:
        return sign | (SATURATED if infinity is Infinity.SATURATE_FINITE else MERGED)
    magnitude = fraction * 2.0**-24 if exponent == 0 else (1 + fraction / 1024) * 2.0 ** (exponent - 15)
    return sign | rounded(magnitude, rounding)


@pytest.mark.parametrize(("rounding", "infinity"), POLICIES)
def test_every_fp16_pattern_converts_as_the_policy_says(rounding: Rounding, infinity: Infinity) -> None:
    codes = from_host(PATTERNS.view(torch.float16), rounding, infinity)
    expected = [expected_half(p & 0xFFFF, rounding, infinity) for p in PATTERNS.tolist()]
    assert (codes.to(torch.int32) & 0xFFFF).tolist() == expected


@pytest.mark.parametrize(
    ("number", "rounding", "infinity", "expected"),
    [
        (65504.0, Rounding.NEAREST_UP, Infinity.REBIAS, 0x5E00),
        (65504.0, Rounding.TRUNCATE, Infinity.SATURATE_FINITE, 0x5DFF),
        (-math.inf, Rounding.TRUNCATE, Infinity.SATURATE_FINITE, 0xEFFF),
        (math.inf, Rounding.NEAREST_UP, Infinity.REBIAS, 0x5E00),
        (math.nan, Rounding.NEAREST_UP, Infinity.REBIAS, 0x5F00),
        (-math.inf, Rounding.TRUNCATE, Infinity.PRESERVE, 0xFFFF),
    ],
)
def test_vectors_of_the_facts_page(number: float, rounding: Rounding, infinity: Infinity, expected: int) -> None:
    code = from_host(torch.tensor([number], dtype=torch.float16), rounding, infinity)
    assert int(code.item()) & 0xFFFF == expected


def test_single_values_reported_from_hardware_fit_truncation() -> None:
    down = torch.tensor([0.1669, 0.1876, 2.002, 1.001], dtype=torch.float16)
    back = to_host(from_host(down, Rounding.TRUNCATE, Infinity.SATURATE_FINITE), torch.float16)
    assert [round(v, 4) for v in back.tolist()] == [0.1667, 0.1875, 2.0, 1.0]


def test_every_fp16_value_with_nine_fraction_bits_survives_the_round_trip() -> None:
    halves = PATTERNS.view(torch.float16)
    kept = halves[halves.isfinite() & ((PATTERNS.to(torch.int32) & 1) == 0)]
    for rounding in Rounding:
        back = to_host(from_host(kept, rounding, Infinity.SATURATE_FINITE), torch.float16)
        normal = kept.abs() >= 2.0**-14
        assert torch.equal(back[normal], kept[normal])


@pytest.mark.parametrize("rounding", list(Rounding))
def test_bfloat16_fractions_are_exact_and_the_range_is_not(rounding: Rounding) -> None:
    values = PATTERNS.view(torch.bfloat16)
    magnitude = values.float().abs()
    inside = values[values.isfinite() & (magnitude < 8.5e9) & (magnitude > 2.0**-31)]
    codes = from_host(inside, rounding, Infinity.SATURATE_FINITE)
    assert torch.equal(to_host(codes, torch.bfloat16), inside)
    beyond = torch.tensor([1e10, 3e38, math.inf], dtype=torch.bfloat16)
    assert from_host(beyond, rounding, Infinity.SATURATE_FINITE).tolist() == [BFLOAT_SATURATED] * 3
    assert from_host(beyond, rounding, Infinity.PRESERVE).tolist() == [MERGED] * 3


def test_dl16_to_bfloat16_truncates_toward_zero() -> None:
    exact = torch.tensor([18.09375, -18.09375, 1.5078125 * 12])
    assert to_host(encode(exact), torch.bfloat16).tolist() == [18.0, -18.0, 18.0]


def test_values_beyond_fp16_become_infinite_on_the_host() -> None:
    wide = encode(torch.tensor([65504.0, 65536.0, -3.3521664e7, 8.5e9, 2.0**-25, 2.0**-26, 3e-8]))
    assert to_host(wide, torch.float16).tolist() == [math.inf, math.inf, -math.inf, math.inf, 0.0, 0.0, 2.0**-25 * 2]


def test_every_code_converts_to_fp16_as_its_value_does() -> None:
    finite = PATTERNS[(PATTERNS.to(torch.int32) & MERGED) != MERGED]
    assert torch.equal(to_host(finite, torch.float16), decode(finite).to(torch.float16))


def test_the_merged_code_is_nan_on_the_host_unless_infinities_are_preserved() -> None:
    merged = torch.tensor([MERGED, -1], dtype=torch.int16)
    assert to_host(merged, torch.float16).isnan().all()
    assert to_host(merged, torch.float16, Infinity.PRESERVE).tolist() == [math.inf, -math.inf]
    assert to_host(merged, torch.bfloat16, Infinity.PRESERVE).tolist() == [math.inf, -math.inf]


def test_only_sixteen_bit_floats_come_from_the_host() -> None:
    with pytest.raises(TypeError, match="must have dtype"):
        from_host(torch.zeros(2), Rounding.TRUNCATE, Infinity.PRESERVE)


def reference_half(code: int, rounding: Rounding) -> float:
    """The fp16 value of a finite code, by exact arithmetic; infinite beyond 65504."""
    value = float(decode(torch.tensor([(code ^ 0x8000) - 0x8000], dtype=torch.int16)).item())
    magnitude = abs(value)
    if magnitude >= 2.0**-14:
        return math.copysign(magnitude if magnitude <= 65504 else math.inf, value)
    units = magnitude * 2.0**24
    down = math.floor(units)
    rest = units - down
    up = {Rounding.TRUNCATE: False, Rounding.NEAREST_UP: rest >= 0.5}.get(
        rounding, rest > 0.5 or (rest == 0.5 and down % 2 == 1)
    )
    return math.copysign((down + int(up)) * 2.0**-24, value)


@pytest.mark.parametrize("rounding", list(Rounding))
def test_every_code_becomes_fp16_by_the_rounding_asked_for(rounding: Rounding) -> None:
    finite = PATTERNS[(PATTERNS.to(torch.int32) & MERGED) != MERGED]
    expected = torch.tensor([reference_half(int(c) & 0xFFFF, rounding) for c in finite.tolist()])
    got = to_host(finite, torch.float16, rounding=rounding).float()
    assert torch.equal(got, expected)
    assert torch.equal(got.signbit(), expected.signbit())


@pytest.mark.parametrize(
    ("rounding", "infinity", "back"),
    [
        (Rounding.NEAREST_UP, Infinity.REBIAS, [-math.inf, math.inf, -math.inf]),  # until 2026-06-05
        (Rounding.TRUNCATE, Infinity.PRESERVE, [-65472.0, math.inf, -math.inf]),  # after, as #2518 says
        (Rounding.TRUNCATE, Infinity.SATURATE_FINITE, [-65472.0, math.inf, -math.inf]),  # the default of 2026-08
    ],
)
def test_the_largest_fp16_and_the_infinities_go_there_and_back_as_reported(
    rounding: Rounding, infinity: Infinity, back: list[float]
) -> None:
    codes = from_host(torch.tensor([-65504.0, math.inf, -math.inf], dtype=torch.float16), rounding, infinity)
    assert to_host(codes, torch.float16, infinity).tolist() == back


def test_logarithms_of_rebiased_specials_are_those_reported_in_2026_04() -> None:
    specials = torch.tensor([math.inf, math.nan], dtype=torch.float16)
    values = decode(from_host(specials, Rounding.NEAREST_UP, Infinity.REBIAS))
    assert round_dl16(values.log()).tolist() == [11.09375, 11.5]


@pytest.mark.fact("E-20", "1.6")
def test_one_bfloat16_infinity_is_finite_on_the_device_and_two_of_them_are_nan() -> None:
    mask = decode(
        from_host(torch.tensor([-math.inf], dtype=torch.bfloat16), Rounding.TRUNCATE, Infinity.SATURATE_FINITE)
    )
    assert mask.isfinite().all()
    assert round_dl16(mask + 3.0).isfinite().all()
    assert round_dl16(mask + mask).isnan().all()
