"""Stick expressions: which accesses of which buffers are legal (facts 2.2 to 2.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sympy
import torch
from torch._inductor.exc import InductorError
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from sim_backend.compiler import runtime
from sim_backend.compiler.block_audit import BlockAudit, audit_block
from sim_backend.compiler.sticks import lane_of, lane_of_view, row_stride, stick_of
from sim_backend.profiles import Profile

pytestmark = pytest.mark.fact("2.4")

L = 16
X, Y = sympy.symbols("x y", integer=True, nonnegative=True)


def heads(count: int, width: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Size and stride of view(2, L, count, width).transpose(1, 2) of a [2L, count*width] buffer."""
    return (2, count, L, width), (L * count * width, width, count * width, 1)


@pytest.mark.parametrize(
    ("dtype", "count"), [(torch.float16, 64), (torch.bfloat16, 64), (torch.float32, 32), (torch.int64, 32)]
)
def test_a_stick_is_128_bytes(dtype: torch.dtype, count: int) -> None:
    assert stick_of(dtype) == count


def test_heads_of_32_split_the_stick() -> None:
    size, stride = heads(12, 32)
    assert lane_of_view(size, stride, 0, (2 * L, 384), (384, 1), 64).problem == "32*d2 + d3"


@pytest.mark.parametrize(("count", "width"), [(6, 64), (3, 128), (2, 192)])
def test_heads_of_whole_sticks_are_legal(count: int, width: int) -> None:
    size, stride = heads(count, width)
    assert lane_of_view(size, stride, 0, (2 * L, 384), (384, 1), 64).problem is None


def test_heads_of_32_are_legal_in_fp32() -> None:
    size, stride = heads(12, 32)
    assert lane_of_view(size, stride, 0, (2 * L, 384), (384, 1), 32).problem is None


def test_merging_heads_of_32_is_a_modulus_that_is_no_stick() -> None:
    lane = lane_of_view((2 * L, 384), (384, 1), 0, (2, L, 12, 32), (L * 384, 384, 32, 1), 64)
    assert lane.problem == "Mod(d1, 32)"


def test_merging_heads_of_64_is_legal() -> None:
    assert lane_of_view((2 * L, 384), (384, 1), 0, (2, L, 6, 64), (L * 384, 384, 64, 1), 64).problem is None


@pytest.mark.parametrize(("offset", "legal"), [(0, True), (64, True), (32, False), (1, False)])
def test_offsets_are_whole_sticks(offset: int, legal: bool) -> None:
    lane = lane_of_view((L, 32), (128, 1), offset, (L, 128), (128, 1), 64)
    assert (lane.problem is None) is legal


def test_an_offset_of_whole_rows_is_legal() -> None:
    assert lane_of_view((1, 100), (100, 1), 500, (8, 100), (100, 1), 64).problem is None


def test_a_bare_variable_beyond_one_stick_that_fills_the_row_is_legal() -> None:
    assert lane_of(100 * X + Y, {X: 8, Y: 100}, (8, 100), (100, 1), 64).problem is None


def test_a_floor_is_illegal() -> None:
    assert lane_of(FloorDiv(X, 5), {X: 320}, (4, 64), (64, 1), 64).problem == "floor(d0/5)"


def test_a_modulus_of_whole_sticks_is_legal_and_others_are_not() -> None:
    def problem(modulus: int) -> str | None:
        return lane_of(ModularIndexing(X, 1, modulus), {X: 384}, (4, 384), (384, 1), 64).problem

    assert problem(64) is problem(128) is None
    assert problem(32) == "Mod(d0, 32)"


def test_a_gather_along_rows_is_legal_and_inside_a_stick_is_not() -> None:
    index = sympy.Symbol("indirect", integer=True)
    assert lane_of(384 * index + X, {X: 384}, (1000, 384), (384, 1), 64).problem is None
    assert lane_of(index, {X: 10}, (1000,), (1,), 64).problem is not None


def test_a_broadcast_has_no_lane() -> None:
    assert lane_of(X, {X: 8, Y: 64}, (8, 1), (1, 8), 64) == (None, None)


def test_two_variables_in_one_stick_are_illegal() -> None:
    assert lane_of(X + Y, {X: 8, Y: 8}, (4, 64), (64, 1), 64).problem is not None


def test_a_mask_hides_what_runs_past_the_row() -> None:
    assert lane_of(X, {X: 128}, (4, 100), (100, 1), 64).problem is not None
    assert lane_of(X, {X: 128}, (4, 100), (100, 1), 64, masked=True).problem is None


def test_the_row_stride_ignores_dimensions_of_one() -> None:
    assert row_stride((1, 8, 100), (3, 100, 1)) == 100
    assert row_stride((64,), (1,)) is None


def split_heads(x: torch.Tensor) -> torch.Tensor:
    return x.view(2, L, -1, 32).transpose(1, 2).contiguous() * 2


def test_a_compiled_view_that_splits_the_stick_is_refused(use: Any, run: Callable[..., Any]) -> None:
    with pytest.raises(InductorError, match=r"Unexpected stick expression .*: expected Mod\(var, 64\)"):
        run(split_heads, torch.randn(2, L, 384).half())


@pytest.mark.fact("E-16")
def test_e16_is_named_in_the_refusal_and_kept_with_the_code(use: Any) -> None:
    profile = use("profile-2026-08")
    audit = audit_of(split_heads, torch.randn(2, L, 384).half(), profile)
    assert {(r.kind, r.erratum) for r in audit.session.refusals} == {("layout", "E-16")}
    asked = [e for kernel in audit.session.kernels for e in kernel.errata if e.erratum == "E-16"]
    assert any(e.applies and "32*d" in e.detail for e in asked)


@pytest.mark.fact("E-16")
def test_e16_can_be_switched_off_and_2025_keeps_the_general_rule(use: Any, run: Callable[..., Any]) -> None:
    x = torch.randn(2, L, 384).half()
    use("profile-2026-08", {"errata.E-16": None})
    torch.testing.assert_close(run(split_heads, x), split_heads(x.float()), rtol=2e-3, atol=2e-3)
    november = audit_of(split_heads, x, use("profile-2025-11"))
    sticks = [r for r in november.session.refusals if "Unexpected stick expression" in r.thing]
    assert sticks
    assert {r.erratum for r in sticks} == {None}


def audit_of(function: Callable[..., Any], x: torch.Tensor, profile: Profile) -> BlockAudit:
    class Block(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    mode = FakeTensorMode()
    with mode:
        fake = torch.empty(x.shape, dtype=x.dtype, device="spyre")
    return audit_block(Block(), (fake,), {}, profile, mode)


def test_the_ideal_device_has_no_sticks(use: Any, run: Callable[..., Any]) -> None:
    use("profile-ideal")
    x = torch.randn(2, L, 384).half()
    torch.testing.assert_close(run(split_heads, x), split_heads(x.float()), rtol=2e-3, atol=2e-3)


def test_a_rotation_inside_a_stick_is_refused(use: Any, run: Callable[..., Any]) -> None:
    """E-16: half a head of 64 is not a whole stick."""

    def rotate_half(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([-x[..., 32:], x[..., :32]], -1)

    with pytest.raises(InductorError, match="Unexpected stick expression"):
        run(rotate_half, torch.randn(2, L, 64).half())


def test_a_transposed_fp32_operand_cannot_be_restickified(use: Any, run: Callable[..., Any]) -> None:
    with pytest.raises(InductorError, match=r"ReStickifyOpHBM on DataFormats\.IEEE_FP32"):
        run(lambda x: x.t().contiguous() + 1, torch.randn(64, 64))


def test_a_transposed_fp16_operand_is_restickified(use: Any, run: Callable[..., Any]) -> None:
    x = torch.randn(64, 128).half()
    torch.testing.assert_close(run(lambda v: v.t() + 1, x), x.float().t() + 1, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_a_short_softmax_is_one_reduction_along_the_stick(length: int, use: Any, run: Callable[..., Any]) -> None:
    """Attention of a text of two tokens: unrolled it would read lane 1 of a stick, which 2.4 has no expression for."""
    scores = torch.randn(2, 3, length, length).half()
    result = run(lambda s: torch.softmax(s + 1, -1), scores)
    torch.testing.assert_close(result, torch.softmax(scores.float() + 1, -1), atol=2e-3, rtol=0)


@pytest.mark.parametrize(("constant", "legal"), [(0, True), (64, True), (128, True), (1, False), (32, False)])
def test_a_constant_is_legal_if_it_is_a_whole_number_of_sticks(constant: int, legal: bool) -> None:
    assert (lane_of(192 * X + constant, {X: 8}, (8, 192), (192, 1), 64).problem is None) is legal


VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "view of whole sticks": lambda x: x.view(2, L, 2, 64),
    "transpose of rows": lambda x: x.transpose(0, 1),
    "heads of whole sticks": lambda x: x.view(2, L, 2, 64).transpose(1, 2),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "expand": lambda x: x.unsqueeze(0).expand(3, 2, L, 128),
    "rows": lambda x: x[1:],
    "whole sticks": lambda x: x[..., 64:],
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_metadata_while_its_stick_expression_is_legal(name: str, use: Any, run: Callable[..., Any]) -> None:
    view, x = VIEWS[name], torch.randn(2, L, 128).half()
    torch.testing.assert_close(run(lambda v: view(v) + 1, x), view(x.float()) + 1, rtol=2e-3, atol=2e-3)
    (kernel,) = runtime.AUDITS[-1]["kernels"]
    assert (kernel["ops"], kernel["restickifies"]) == ({"add": 1}, [])


def test_a_view_to_another_stick_is_moved_for_its_consumer(use: Any, run: Callable[..., Any]) -> None:
    run(lambda v, w: v.transpose(1, 2) + w, torch.randn(2, L, 128).half(), torch.randn(2, 128, L).half())
    assert sum(len(k["restickifies"]) for k in runtime.AUDITS[-1]["kernels"]) == 1


def test_a_reduction_over_the_stick_and_another_dimension_works(use: Any, run: Callable[..., Any]) -> None:
    """Refused in 2025-11, split in two later."""
    x = torch.randn(2, L, 128).half()
    torch.testing.assert_close(run(lambda v: v.sum((1, 2)), x), x.float().sum((1, 2)), rtol=0.02, atol=0.5)


def test_a_gather_along_the_stick_is_refused(use: Any, run: Callable[..., Any]) -> None:
    with pytest.raises(InductorError, match="Unexpected stick expression"):
        run(lambda v, i: v.index_select(1, i), torch.randn(L, 128).half(), torch.tensor([5, 3]))
