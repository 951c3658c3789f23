"""DL16 codes: the facts' test vectors, and every code against the definition."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from sim_backend import numerics
from sim_backend.numerics import Rounding

pytestmark = pytest.mark.fact("1.6")

ALL_CODES = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
MERGED = 0x7FFF
LARGEST = (1 + 510 / 512) * 2.0**32
SMALLEST = (1 + 1 / 512) * 2.0**-31


def code(value: float) -> int:
    return int(numerics.encode(torch.tensor([value])).item()) & 0xFFFF


def value(code: int) -> float:
    signed = (code ^ 0x8000) - 0x8000
    return float(numerics.decode(torch.tensor([signed], dtype=torch.int16)).item())


def defined_value(code: int) -> float:
    """The value of a code by its fields (facts 1.6)."""
    sign = -1.0 if code & 0x8000 else 1.0
    exponent, fraction = (code >> 9) & 0x3F, code & 0x1FF
    if code & 0x7FFF == MERGED:
        return math.nan
    return sign * (0.0 if code & 0x7FFF == 0 else 2.0 ** (exponent - 31) * (1 + fraction / 512))


@pytest.mark.parametrize(
    ("number", "expected"),
    [(1.0, 0x3E00), (-1.0, 0xBE00), (2.0**-8, 0x2E00), (1e-5, 0x1C9F), (65504.0, 0x5E00), (98304.0, 0x5F00)],
)
def test_vectors_of_the_facts_page_encode(number: float, expected: int) -> None:
    assert code(number) == expected


def test_vectors_of_the_facts_page_decode() -> None:
    assert value(0xEFFF) == -33_521_664.0
    assert value(0x0001) == pytest.approx(4.6657e-10, rel=1e-4)
    assert value(0x7FFE) == LARGEST
    assert value(0x1C9F) == pytest.approx(9.99868e-6, rel=1e-5)


def test_every_code_decodes_to_its_definition() -> None:
    decoded = numerics.decode(ALL_CODES)
    expected = torch.tensor([defined_value(int(c) & 0xFFFF) for c in ALL_CODES.tolist()], dtype=torch.float64).float()
    assert torch.equal(decoded.nan_to_num(nan=7.0), expected.nan_to_num(nan=7.0))


def test_every_code_but_the_merged_one_survives_the_round_trip() -> None:
    back = numerics.encode(numerics.decode(ALL_CODES))
    merged = (ALL_CODES.to(torch.int32) & MERGED) == MERGED
    assert torch.equal(back[~merged], ALL_CODES[~merged])
    assert (back[merged].to(torch.int32) & MERGED == MERGED).all()


def test_integers_are_exact_to_1024_and_even_to_2048() -> None:
    numbers = torch.arange(0, 2049, dtype=torch.float32)
    exact = numerics.round_dl16(numbers) == numbers
    assert exact[:1025].all()
    assert torch.equal(exact[1025:], (numbers[1025:] % 2) == 0)


def test_ties_go_up_in_magnitude() -> None:
    tie = 1 + 0.5 / 512
    assert numerics.round_dl16(torch.tensor([tie, -tie])).tolist() == [1 + 1 / 512, -(1 + 1 / 512)]


def test_rounding_picks_the_nearest_value_for_random_bits() -> None:
    generator = torch.Generator().manual_seed(7)
    bits = torch.randint(-(2**31), 2**31, (200_000,), dtype=torch.int64, generator=generator).to(torch.int32)
    x = bits.view(torch.float32)
    x = x[x.isfinite() & (x.abs() < LARGEST) & (x.abs() > SMALLEST)]
    scale = torch.exp2(torch.floor(torch.log2(x.abs().double())) - 9)
    expected = torch.sign(x.double()) * torch.floor(x.abs().double() / scale + 0.5) * scale
    assert torch.equal(numerics.round_dl16(x).double(), expected)


def nearest_even(x: torch.Tensor) -> torch.Tensor:
    return torch.round(x)  # torch rounds halves to even


def nearest_up(x: torch.Tensor) -> torch.Tensor:
    return torch.floor(x + 0.5)


MODES = {Rounding.TRUNCATE: torch.floor, Rounding.NEAREST_UP: nearest_up, Rounding.NEAREST_EVEN: nearest_even}


@pytest.fixture
def results_rounded() -> Iterator[Callable[[Rounding], None]]:
    yield numerics.set_op_rounding
    numerics.set_op_rounding(Rounding.NEAREST_UP)


@pytest.mark.parametrize("rounding", list(Rounding))
def test_results_are_rounded_as_the_profile_asks(rounding: Rounding, results_rounded: Any) -> None:
    results_rounded(rounding)
    assert numerics.op_rounding() is rounding
    codes = torch.arange(1, 0x7FFE, dtype=torch.int32)
    low, high = (numerics.decode(c.to(torch.int16)) for c in (codes, codes + 1))
    x = torch.cat([torch.lerp(low, high, w) for w in (0.0, 0.25, 0.5, 0.75)])
    x = torch.cat([x, -x])
    scale = torch.exp2(torch.floor(torch.log2(x.abs().double())) - 9)
    expected = torch.sign(x.double()) * MODES[rounding](x.abs().double() / scale) * scale
    assert torch.equal(numerics.round_dl16(x).double(), expected)
    assert torch.equal(numerics.decode(numerics.encode(x)).double(), expected)


@pytest.mark.parametrize(
    ("rounding", "tie", "constant"),
    [
        (Rounding.TRUNCATE, 1.0, 0x7DFF),
        (Rounding.NEAREST_UP, 1 + 1 / 512, 0x7DFF),
        (Rounding.NEAREST_EVEN, 1.0, 0x7DFF),
    ],
)
def test_constants_are_rounded_as_results_are(
    rounding: Rounding, tie: float, constant: int, results_rounded: Any
) -> None:
    results_rounded(rounding)
    assert numerics.round_constant(1 + 0.5 / 512) == tie
    assert numerics.encode_constant(math.inf) == constant


def test_the_sign_of_zero_and_of_nan_is_ignored() -> None:
    zeros = numerics.decode(torch.tensor([0, -0x8000], dtype=torch.int16))
    assert zeros.eq(0).all()
    assert zeros[0] == zeros[1]
    merged = numerics.decode(torch.tensor([MERGED, -1], dtype=torch.int16))
    assert merged.isnan().all()


def test_results_beyond_the_range_become_the_merged_code_not_a_saturated_one() -> None:
    beyond = torch.tensor([LARGEST * 1.01, -LARGEST * 1.01, math.inf, -math.inf, math.nan, 3.4e38])
    assert (numerics.encode(beyond).to(torch.int32) & MERGED == MERGED).all()
    assert numerics.round_dl16(beyond).isnan().all()
    assert value(code(LARGEST)) == LARGEST


def test_exponent_zero_is_ordinary_and_not_flushed() -> None:
    numbers = torch.tensor([SMALLEST, 2.0**-31 * 1.5, -(2.0**-31) * 1.25])
    assert torch.equal(numerics.round_dl16(numbers), numbers)


def test_below_the_smallest_value_the_nearer_neighbour_wins() -> None:
    assert code(2.0**-31) == 0x0001
    assert code(SMALLEST * 0.5) == 0x0001
    assert code(SMALLEST * 0.499) == 0x0000
    assert code(1e-45) == 0x0000


def test_constants_saturate_at_7dff() -> None:
    assert numerics.encode_constant(3.4028234663852886e38) == 0x7DFF
    assert numerics.encode_constant(-math.inf) == 0xFDFF
    assert numerics.round_constant(3.4e38) == pytest.approx(4.2908e9, rel=1e-4)
    assert numerics.encode_constant(1.0) == 0x3E00
    assert math.isnan(numerics.round_constant(math.nan))


def test_rounding_equals_encode_then_decode_in_place_and_out_of_place() -> None:
    x = torch.randn(1000) * torch.exp2(torch.randint(-40, 40, (1000,)).float())
    expected = numerics.decode(numerics.encode(x))
    assert torch.equal(numerics.round_dl16(x).nan_to_num(nan=3.0), expected.nan_to_num(nan=3.0))
    assert numerics.round_dl16_(x) is x
    assert torch.equal(x.nan_to_num(nan=3.0), expected.nan_to_num(nan=3.0))


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (70_001,)])
def test_all_shapes(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    assert numerics.encode(x).shape == x.shape
    assert torch.equal(numerics.decode(numerics.encode(x)), numerics.round_dl16(x))


@pytest.mark.parametrize("view", [lambda x: x.t(), lambda x: x[1:, ::2], lambda x: x[:, None].expand(6, 4, 8)])
def test_strided_tensors_give_the_values_of_their_contiguous_copy(view) -> None:
    x = view(torch.randn(6, 8))
    assert torch.equal(numerics.encode(x), numerics.encode(x.contiguous()))
    codes = torch.empty(x.shape, dtype=torch.int16)
    numerics.encode_into(x, codes)
    back = torch.empty(x.shape)
    numerics.decode_into(codes, back)
    assert torch.equal(back, numerics.round_dl16(x.contiguous()))


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (64, 64), (65, 130), (3, 200), (700, 63), (0, 5)])
def test_a_matrix_stored_by_columns_is_decoded_into_one_stored_by_rows(rows: int, columns: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    stored = torch.randint(-(2**15), 2**15, (columns, rows + 2), generator=generator, dtype=torch.int16)
    codes, whole = stored[:, 1:-1].t(), torch.full((rows, columns + 16), 7.0)
    numerics.decode_into(codes, whole[:, :columns])
    assert torch.equal(whole[:, :columns].nan_to_num(5.0), numerics.decode(codes.contiguous()).nan_to_num(5.0))
    assert (whole[:, columns:] == 7.0).all()


def test_in_place_rounding_of_a_strided_view_leaves_the_rest_alone() -> None:
    base = torch.full((4, 4), 1 + 1 / 4096)
    numerics.round_dl16_(base[:, ::2])
    assert (base[:, ::2] == 1.0).all()
    assert (base[:, 1::2] != 1.0).all()


def test_a_wrong_dtype_is_named() -> None:
    with pytest.raises(TypeError, match=r"x must have dtype Float, got Double"):
        numerics.encode(torch.zeros(2, dtype=torch.float64))
    with pytest.raises(TypeError, match=r"codes must have dtype Short"):
        numerics.decode(torch.zeros(2))
