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


def test_torchs_own_functions_take_a_layout() -> None:
    host = torch.arange(512.0).view(4, 128).half() / 2
    moved = host.to("spyre", device_layout=TURNED)
    assert moved.device_tensor_layout() == TURNED
    assert torch.equal(moved.cpu(), torch.spyre.to(host, device_layout=TURNED).cpu())
    assert host.float().to("spyre", torch.float16, device_layout=TURNED).device_tensor_layout() == TURNED
    again = moved.to("spyre", device_layout=SpyreTensorLayout.of((4, 128), torch.float16))
    assert (again.device_tensor_layout() == TURNED, moved.device_tensor_layout() == TURNED) == (False, True)
    for size in (((4, 128),), (4, 128)):
        made = torch.empty(*size, dtype=torch.float16, device="spyre", device_layout=TURNED)
        assert made.device_tensor_layout() == TURNED
    with pytest.raises(ValueError, match="for tensors on spyre, not on cpu"):
        host.to("cpu", device_layout=TURNED)
    with pytest.raises(ValueError, match="for tensors on spyre, not on cpu"):
        torch.empty(4, 128, device="cpu", device_layout=TURNED)
    with pytest.raises(ValueError, match="IEEE_FP32 on the device"):
        torch.empty(4, 128, device="spyre", device_layout=TURNED)


FUNCTIONS_STAY_TORCHS = """
import torch
from torch import empty  # held before the device starts
EARLY
torch.ones(1).to("spyre")
held = torch.ones(4, 64, dtype=torch.float16).to("spyre")
def graph(x):
    y = torch.empty(4, 64, dtype=x.dtype, device=x.device)
    z = empty(4, 64, dtype=x.dtype, device=x.device)
    return (x + y * 0 + z * 0).to(torch.bfloat16), x.to(torch.float32).to(torch.float16) + x
def on_cpu(x):
    return torch.empty(4, 64).to(torch.float64).zero_() + empty(4, 64).zero_() + x
torch.compile(graph, fullgraph=True, dynamic=False)(held)
torch.compile(on_cpu, fullgraph=True, backend="eager")(torch.ones(4, 64))
with torch.device("meta"):
    assert torch.empty(3).device.type == "meta" and torch.nn.Linear(3, 4).weight.device.type == "meta"
assert torch.empty(2, 3, device="meta").to("meta").shape == (2, 3)
assert torch.nn.Parameter(torch.empty(2)).to(torch.float16).dtype == torch.float16
print("ok")
"""


@pytest.mark.parametrize("early", ["", "import torch._dynamo.trace_rules as r; r.get_torch_obj_rule_map()"])
def test_torchs_functions_stay_what_they_are_for_dynamo_and_device_contexts(early: str, run_python) -> None:
    assert run_python(FUNCTIONS_STAY_TORCHS.replace("EARLY", early)).strip() == "ok"


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
