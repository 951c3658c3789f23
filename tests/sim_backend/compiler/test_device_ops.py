"""`require_layout` and `compact`: the device's own operations, in compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor.exc import InductorError

from sim_backend.compiler import runtime

Run = Callable[..., Any]
X = torch.linspace(-2, 2, 4 * 128).reshape(4, 128).half()
TURNED = ([128, 1, 64], [1, 8192, 128])  # along the rows: dim_order [1, 0]


def layouts() -> list[dict[str, Any]]:
    return [layout for kernel in runtime.AUDITS[-1]["kernels"] for layout in kernel["layouts"].values()]


@pytest.mark.fact("2.2")
@pytest.mark.parametrize("producer", [lambda x: x * 2, lambda x: x @ torch.eye(128).half().to(x.device)])
def test_a_required_layout_is_the_one_that_is_noted_and_changes_no_value(producer: Any, use: Any, run: Run) -> None:
    result = run(lambda x: torch.spyre.require_layout(producer(x), *TURNED) + 1, X)
    torch.testing.assert_close(result, producer(X).float() + 1, atol=0.01, rtol=0)
    required = {"device_size": TURNED[0], "stride_map": TURNED[1], "device_dtype": "SEN169_FP16"}
    assert required in layouts()


@pytest.mark.fact("2.2")
@pytest.mark.parametrize(
    ("made", "layout", "text"),
    [
        (lambda x: x.t(), TURNED, "require_layout of the result of aten.permute.default"),
        (lambda x: x.sum(0), TURNED, "require_layout of the result of aten.sum.dim_IntList"),
        (lambda x: x, TURNED, "require_layout of the result of no operation"),
        (lambda x: x > 0, TURNED, "require_layout of torch.bool"),
        (lambda x: x * 2, ([2, 64], [64, 1]), "room for 128 of 512 elements"),
        (lambda x: x * 2, ([8, 63], [64, 1]), "the last of .8, 63. is not a stick of SEN169_FP16"),
    ],
)
def test_a_layout_that_cannot_be_had_is_refused(made: Any, layout: Any, text: str, use: Any, run: Run) -> None:
    with pytest.raises(InductorError, match=f"Spyre backend does not support: require_layout.*{text.split('of ')[-1]}"):
        run(lambda x: torch.spyre.require_layout(made(x), *layout).clone(), X)


@pytest.mark.fact("2.2")
def test_a_layout_is_required_in_compiled_code_only() -> None:
    with pytest.raises(NotImplementedError, match="Could not run 'spyre::require_layout'"):
        torch.spyre.require_layout(X.to("spyre"), *TURNED)


@pytest.mark.fact("3.4", "3.7")
def test_compact_is_of_2025_and_of_one_dimension(use: Any, run: Run) -> None:
    use("profile-2025-11")
    x = X[:, :64]
    found = run(lambda x: torch.ops.spyre.compact(x.sum(-1)), x)
    torch.testing.assert_close(found, x.float().sum(-1), atol=0.2, rtol=0.01)
    with pytest.raises(InductorError, match="compact only implemented for 1-D tensors"):
        run(lambda x: torch.ops.spyre.compact(x.sum(-1)), X.view(2, 4, 64))
    use("profile-2026-08")
    with pytest.raises(InductorError, match=r"does not support: spyre\.compact"):
        run(lambda x: torch.ops.spyre.compact(x.sum(-1)), x)


# --- copies and writes whose offset no stick allows
@pytest.mark.fact("3.7")
@pytest.mark.parametrize(("start", "fits"), [(10, False), (64, True), (0, True)])
def test_a_copy_of_a_sliced_view_begins_with_a_stick(start: int, fits: bool, use: Any) -> None:
    def copy(target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        target.copy_(source[:, start : start + 64])
        return target + 0

    target, source = torch.zeros(4, 64).half().to("spyre"), X.to("spyre")
    graph = torch.compile(copy, fullgraph=True, dynamic=False)
    if fits:
        assert torch.equal(graph(target, source).cpu(), source.cpu()[:, start : start + 64])
        return
    with pytest.raises(InductorError, match="spyre::copy_from_d2d of a sliced view requires a stick-aligned storage_o"):
        graph(target, source)


@pytest.mark.fact("3.7", "E-70")
@pytest.mark.parametrize(
    ("shape", "rows", "text"),
    [
        ((200,), (), r"no offset-free alternative stick dim for mutation target \(\[200\]\)"),
        ((4, 128), (slice(1, None),), r"no offset-free alternative stick dim for mutation target \(\[3, 128\]\)"),
        ((4, 128), (slice(None),), r"Unexpected stick expression d1 \+ 10"),  # the rows could be along the sticks
    ],
)
def test_a_write_inside_a_stick_needs_a_dimension_without_offset(shape: Any, rows: Any, text: str, use: Any) -> None:
    def write(x: torch.Tensor) -> torch.Tensor:
        x[(*rows, slice(10, 20))].copy_(torch.ones_like(x[(*rows, slice(64, 74))]))
        return x * 2

    with pytest.raises(InductorError, match=text):
        torch.compile(write, fullgraph=True, dynamic=False)(torch.zeros(shape).half().to("spyre"))


@pytest.mark.fact("3.7")
def test_a_reduction_of_constants_has_no_operands(use: Any, run: Run) -> None:
    def add_total(x: torch.Tensor) -> torch.Tensor:
        return x + torch.full((4, 64), 2.0, dtype=x.dtype, device=x.device).sum()

    with pytest.raises(InductorError, match=r"Spyre backend does not support: reduction operands: \[\]"):
        run(add_total, X)
    use("profile-ideal")
    torch.testing.assert_close(run(add_total, X), X.float() + 512, atol=1, rtol=0)
