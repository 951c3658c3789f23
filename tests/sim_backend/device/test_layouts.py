"""A device tensor tells its layout; one made in another keeps it; a layout that does not fit is refused."""

from __future__ import annotations

import pytest
import torch

from sim_backend.layouts import SpyreTensorLayout

pytestmark = pytest.mark.fact("2.2")

TURNED = SpyreTensorLayout.of((4, 128), torch.float16, dim_order=[1, 0])


def test_a_device_tensor_has_the_default_layout_of_its_size() -> None:
    x = torch.ones(5, 100, 150, dtype=torch.float16, device="spyre")
    assert x.device_tensor_layout() == SpyreTensorLayout.of((5, 100, 150), torch.float16)  # type: ignore[attr-defined]
    assert x.transpose(1, 2).device_tensor_layout().stride_map == (1, 64 * 150, 15000, 150)  # type: ignore[attr-defined]


def test_a_host_tensor_has_none() -> None:
    with pytest.raises(RuntimeError, match="on cpu, not on spyre"):
        torch.ones(2).device_tensor_layout()  # type: ignore[attr-defined]


def test_a_tensor_made_in_a_layout_keeps_it_and_its_values() -> None:
    host = torch.arange(512.0).view(4, 128).half()
    moved = torch.spyre.to(host, device_layout=TURNED)
    assert moved.device_tensor_layout() == TURNED
    assert (moved.cpu() == host).sum() >= 500  # odd integers beyond 1024 would round; here half the codes are exact
    assert torch.spyre.empty((4, 128), dtype=torch.float16, device_layout=TURNED).device_tensor_layout() == TURNED


@pytest.mark.parametrize(
    ("dtype", "size", "text"),
    [(torch.float32, (4, 128), "IEEE_FP32 on the device"), (torch.float16, (40, 1280), "has room for 8192 of 51200")],
)
def test_a_layout_that_does_not_fit_is_refused(dtype: torch.dtype, size: tuple[int, ...], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        torch.spyre.empty(size, dtype=dtype, device_layout=TURNED)


def test_something_else_is_no_layout() -> None:
    with pytest.raises(TypeError, match="must be a SpyreTensorLayout"):
        torch.spyre.empty((2,), dtype=torch.float16, device_layout="row")
