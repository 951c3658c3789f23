"""The layouts of 2025-11: its examples, the copy path's order, and its padding defect."""

from __future__ import annotations

import pytest
import torch

from sim_backend.layouts.of_2025 import OldTensorLayout, copy_loop, sticks_of

pytestmark = pytest.mark.fact("2.1")

FP16 = torch.float16


@pytest.mark.parametrize(
    ("size", "device_size", "dim_map"),
    [((512, 256), (4, 512, 64), (1, 0, 1)), ((512, 8, 256), (4, 512, 8, 64), (2, 0, 1, 2))],
)
def test_the_runtimes_examples(size: tuple[int, ...], device_size: tuple[int, ...], dim_map: tuple[int, ...]) -> None:
    layout = OldTensorLayout.of(size, FP16)
    assert (layout.device_size, layout.dim_map, layout.num_stick_dims) == (device_size, dim_map, 1)


@pytest.mark.parametrize(
    ("size", "ranges"),
    [
        ((128,), (2, 64)),
        ((5, 128), (2, 5, 64)),
        ((3, 5, 128), (5, 2, 3, 64)),
        ((2, 3, 5, 128), (2, 2, 3, 5, 64)),
    ],
)
def test_the_copy_path_has_its_own_order(size: tuple[int, ...], ranges: tuple[int, ...]) -> None:
    assert copy_loop(size, FP16).ranges == ranges


def test_a_rank_above_four_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Unsupported tensor rank: 5"):
        copy_loop((1, 1, 1, 1, 64), FP16)


@pytest.mark.fact("2.1", "E-69")
@pytest.mark.parametrize(("length", "given"), [(2, 1), (63, 1), (64, 1), (65, 1), (127, 1), (128, 2), (200, 1)])
def test_a_dimension_that_does_not_fill_its_sticks_gets_one(length: int, given: int) -> None:
    assert sticks_of(length, FP16) == given


@pytest.mark.fact("2.1", "E-69")
def test_rows_of_65_to_127_overlap_and_shorter_ones_do_not() -> None:
    def last_of_first_row(length: int) -> int:
        return copy_loop((4, length), FP16).ranges[-1] - 1

    second_row = copy_loop((4, 100), FP16).device_strides[-2]
    assert last_of_first_row(50) < second_row <= last_of_first_row(100)


def test_a_tensor_without_dimensions_has_the_shape_1() -> None:
    assert copy_loop((), FP16).ranges == (1, 1)  # one stick, one element
