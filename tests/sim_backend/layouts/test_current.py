"""Stick layouts are the published table's, and a copy by its description puts every element where the layout says."""

from __future__ import annotations

import itertools

import pytest
import torch

from sim_backend.errors import Unsupported
from sim_backend.layouts import (
    ElementArrangement,
    SpyreTensorLayout,
    contiguous_strides,
    copy_loops,
    device_format,
    elements_per_stick,
)

pytestmark = pytest.mark.fact("2.2")

FP16, FP32 = torch.float16, torch.float32
TABLE = [
    ((5, 100, 150), FP16, (100, 3, 5, 64), (150, 64, 15000, 1)),
    ((1, 8, 576, 128), FP16, (8, 576, 2, 1, 64), (73728, 128, 64, 589824, 1)),
    ((1024, 64), FP32, (2, 1024, 32), (32, 64, 1)),
    ((1024, 256), FP16, (4, 1024, 64), (64, 256, 1)),
]


@pytest.mark.parametrize(("size", "dtype", "device_size", "stride_map"), TABLE)
def test_the_default_layout_is_the_tables(
    size: tuple[int, ...], dtype: torch.dtype, device_size: tuple[int, ...], stride_map: tuple[int, ...]
) -> None:
    layout = SpyreTensorLayout.of(size, dtype)
    assert (layout.device_size, layout.stride_map) == (device_size, stride_map)
    assert layout.element_arrangement is ElementArrangement.STANDARD


def test_an_order_of_dimensions_is_taken() -> None:
    assert SpyreTensorLayout.of((5, 100, 150), FP16, dim_order=[1, 0, 2]).device_size == (5, 3, 100, 64)


@pytest.mark.fact("1.5", "1.6")
@pytest.mark.parametrize(
    ("dtype", "count", "name"),
    [
        (torch.float16, 64, "SEN169_FP16"),
        (torch.bfloat16, 64, "SEN169_FP16"),
        (torch.float32, 32, "IEEE_FP32"),
        (torch.int32, 32, "IEEE_INT32"),
        (torch.int64, 32, "IEEE_INT32"),
        (torch.int8, 128, "SENINT8"),
        (torch.float8_e4m3fn, 128, "SEN143_FP8"),
        (torch.bool, 64, "SEN169_FP16"),
    ],
)
def test_a_stick_holds_128_bytes_of_the_device_format(dtype: torch.dtype, count: int, name: str) -> None:
    assert (elements_per_stick(dtype), device_format(dtype)) == (count, name)
    assert SpyreTensorLayout.of((3, 300), dtype).device_size == (-(-300 // count), 3, count)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64])
def test_a_dtype_the_device_does_not_hold_is_refused(dtype: torch.dtype) -> None:
    with pytest.raises(Unsupported, match=f"Spyre backend does not support: dtype {dtype}"):
        SpyreTensorLayout.of((4, 4), dtype)


def test_a_vector_and_a_scalar_are_sticks() -> None:
    assert SpyreTensorLayout.of((100,), FP16).device_size == (2, 64)
    assert SpyreTensorLayout.of((100,), FP16).stride_map == (64, 1)
    assert SpyreTensorLayout.of((), FP16).device_size == (1, 64)


@pytest.mark.fact("2.3")
def test_a_stick_is_padded_up() -> None:
    layout = SpyreTensorLayout.of((2, 65), FP16)
    assert (layout.sticks, layout.device_bytes) == (4, 512)


def test_strides_of_a_transposed_tensor_move_the_stick() -> None:
    layout = SpyreTensorLayout.of((256, 1024), FP16, strides=(1, 256))
    assert layout.stride_map == (64 * 256, 1, 256)
    turned = SpyreTensorLayout.of((256, 1024), FP16, strides=(1, 256), dim_order=[1, 0])
    assert turned.same_as(SpyreTensorLayout.of((1024, 256), FP16))


def test_dimensions_of_one_are_dropped_before_layouts_are_compared() -> None:
    plain = SpyreTensorLayout.of((24, 128), FP16)
    assert plain.same_as(SpyreTensorLayout.of((24, 1, 128), FP16))
    assert plain.same_as(SpyreTensorLayout.of((1, 24, 128), FP16)) is False  # device order differs: [24, 2, 64]
    assert not plain.same_as(SpyreTensorLayout.of((24, 128), FP16, dim_order=[1, 0]))


@pytest.mark.fact("2.4")
def test_a_reduction_along_the_stick_is_sparse() -> None:
    layout = SpyreTensorLayout.sparse((5, 100), FP16)
    assert (layout.device_size, layout.stride_map) == ((100, 5, 64), (1, 100, -1))
    assert layout.is_sparse
    assert not layout.same_as(SpyreTensorLayout.of((5, 100), FP16))


@pytest.mark.parametrize("order", [[0, 0, 1], [0, 1], [0, 1, 3]])
def test_an_order_that_is_no_permutation_is_refused(order: list[int]) -> None:
    with pytest.raises(ValueError, match="dim_order"):
        SpyreTensorLayout.of((2, 3, 4), FP16, dim_order=order)


@pytest.mark.parametrize(
    ("device_size", "stride_map", "name"),
    [((4, 32), (64, 1), "SEN169_FP16"), ((4, 64), (1,), "SEN169_FP16"), ((4, 64), (64, 1), "FP99")],
)
def test_a_layout_that_is_none_is_refused(device_size: tuple[int, ...], stride_map: tuple[int, ...], name: str) -> None:
    with pytest.raises(ValueError, match=r"stick|strides|format"):
        SpyreTensorLayout(device_size, stride_map, name)


def test_the_published_copy_description() -> None:
    (loop,) = copy_loops(SpyreTensorLayout.of((1024, 256), FP16), (1024, 256))
    assert loop.ranges == (4, 1024, 64)
    assert loop.host_strides == (64, 256, 1)
    assert loop.device_strides == (65536, 64, 1)


@pytest.mark.parametrize("size", [(5, 10, 150), (3, 130), (7,), (64,), (2, 3, 4, 70), (1, 1)])
def test_a_copy_by_its_description_puts_every_element_where_the_layout_says(size: tuple[int, ...]) -> None:
    layout = SpyreTensorLayout.of(size, FP16)
    host = torch.arange(1, torch.Size(size).numel() + 1)
    device = torch.zeros(layout.sticks * 64, dtype=torch.int64)
    for loop in copy_loops(layout, size):
        source = torch.as_strided(host, loop.ranges, loop.host_strides, loop.host_offset)
        torch.as_strided(device, loop.ranges, loop.device_strides, loop.device_offset).copy_(source)
    for coordinate in itertools.product(*map(range, layout.device_size)):
        lane = coordinate[-1] + 64 * coordinate[max(len(layout.device_size) - 3, 0)]
        value = device[sum(c * s for c, s in zip(coordinate, layout.device_strides, strict=True))]
        assert value == (host[layout.host_offset(coordinate)] if lane < size[-1] else 0)


def test_strides_count_an_empty_dimension_as_one() -> None:
    assert contiguous_strides((2, 0, 3)) == torch.empty(2, 0, 3).stride()
