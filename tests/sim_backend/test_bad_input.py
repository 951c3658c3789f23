"""Bad input on the default profile: the device's documented error or its answer, never the CPU's, never a crash.

What only one erratum or profile does with it stands beside that erratum: zero-size tensors that end the process (E-57),
ranks of 2025-11, sizes of E-24, complex constants of April (E-59).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.exc import Unsupported as DynamoUnsupported
from torch._inductor.exc import InductorError

import sim_backend
from sim_backend.errors import SpyreProfileError


def compiled(function: Callable[..., Any], *inputs: torch.Tensor) -> Any:
    return torch.compile(function, fullgraph=True, dynamic=False)(*inputs)


def on_device(x: torch.Tensor) -> torch.Tensor:
    return x.half().to("spyre")


def breaking(x: torch.Tensor) -> torch.Tensor:
    torch._dynamo.graph_break()
    return x + 1


REFUSED: dict[str, tuple[Callable[[], Any], type[BaseException], str]] = {
    "unknown profile": (lambda: sim_backend.use_profile("profile-1999"), SpyreProfileError, "unknown profile"),
    "profile after first use": (
        lambda: sim_backend.use_profile("profile-2026-04"),
        SpyreProfileError,
        "'profile-2026-04' refused: this process already uses 'profile-2026-08'",
    ),
    "float64": (lambda: torch.ones(64, dtype=torch.float64).to("spyre"), RuntimeError, "not support dtype Double"),
    "complex": (lambda: torch.ones(2, dtype=torch.complex64).to("spyre"), RuntimeError, "not support dtype Complex"),
    "beyond the card": (
        lambda: torch.empty(1 << 36, dtype=torch.float16, device="spyre"),
        torch.OutOfMemoryError,
        "Failed to allocate 137438953472 bytes on Spyre device",
    ),
    "missing kernel, eager": (
        lambda: torch.clamp_min(on_device(torch.ones(2, 64)), 0.0),
        NotImplementedError,
        "Could not run 'aten::clamp_min' with arguments from the 'spyre' backend",
    ),
    "missing lowering": (
        lambda: compiled(lambda x: torch.sort(x)[0], on_device(torch.ones(2, 64))),
        InductorError,
        r"Spyre backend does not support: aten\.sort\.default",
    ),
    "graph break": (lambda: compiled(breaking, on_device(torch.ones(2, 64))), DynamoUnsupported, "graph_break"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused_by_its_text_and_the_cpu_stands_in_for_nothing(case: str) -> None:
    act, error, text = REFUSED[case]
    before = dict(torch.spyre.fallback_counts())  # type: ignore[attr-defined]
    with pytest.raises(error, match=text):
        act()
    assert dict(torch.spyre.fallback_counts()) == before  # type: ignore[attr-defined]


@pytest.mark.parametrize("form", ["eager", "compiled"])
def test_tensors_without_elements_give_results_without_elements(form: str, use: Any) -> None:
    act = (lambda x: x * 3 + x) if form == "eager" else lambda x: compiled(lambda v: v * 3 + v, x)
    result = act(on_device(torch.empty(0, 64)))
    assert (result.device.type, result.dtype, result.shape) == ("spyre", torch.float16, (0, 64))


@pytest.mark.parametrize("form", ["eager", "compiled"])
def test_nan_and_infinities_are_the_merged_code_and_spoil_no_other_element(form: str, use: Any) -> None:
    act = (lambda x: x + 1) if form == "eager" else lambda x: compiled(lambda v: v + 1, x)
    result = act(on_device(torch.tensor([[float("nan"), float("inf"), -float("inf"), 1.0] * 16]))).cpu()
    assert not torch.isfinite(result[:, [0, 1, 2]]).any()
    assert torch.equal(result[0, 3::4], torch.full((16,), 2.0).half())
