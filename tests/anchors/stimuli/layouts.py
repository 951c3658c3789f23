"""Facts 2.2: the published device sizes and stride maps of tensors on the device."""

from __future__ import annotations

import torch
from anchors.published import Right
from anchors.stimulus import APR, AUG, SEP, Pair, normal, stimulus, there

CURRENT = {p: Right(0) for p in (APR, AUG, SEP)}


def _layout(size: tuple[int, ...], device_size: list[int], stride_map: list[int], dtype: torch.dtype) -> Pair:
    layout = there(normal(*size), dtype).device_tensor_layout()
    found = [*layout.device_size, *layout.stride_map]
    return torch.tensor(found), torch.tensor([*device_size, *stride_map])


@stimulus("2.2", published=CURRENT)
def layout_of_5_by_100_by_150() -> Pair:
    return _layout((5, 100, 150), [100, 3, 5, 64], [150, 64, 15000, 1], torch.float16)


@stimulus("2.2", published=CURRENT)
def layout_of_1_by_8_by_576_by_128() -> Pair:
    return _layout((1, 8, 576, 128), [8, 576, 2, 1, 64], [73728, 128, 64, 589824, 1], torch.float16)


@stimulus("2.2", published=CURRENT)
def layout_of_1024_by_64_in_fp32() -> Pair:
    return _layout((1024, 64), [2, 1024, 32], [32, 64, 1], torch.float32)


@stimulus("2.2", published=CURRENT)
def layout_of_1024_by_256() -> Pair:
    return _layout((1024, 256), [4, 1024, 64], [64, 256, 1], torch.float16)
