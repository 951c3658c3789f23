"""Products under the three policies of accumulation: fp32 with one rounding, chunks, element by element."""

from __future__ import annotations

import pytest
import torch

from sim_backend.errors import SpyreProfileError
from sim_backend.numerics import Rounding, op_rounding, round_dl16, set_op_rounding
from sim_backend.numerics.products import POLICIES, product_by
from sim_backend.profiles import list_profiles, load_profile

pytestmark = pytest.mark.fact("1.6")
GENERATOR = torch.Generator().manual_seed(4)
A = round_dl16(torch.randn(8, 1000, generator=GENERATOR))
B = round_dl16(torch.randn(1000, 16, generator=GENERATOR) / 30)


def by_hand(a: torch.Tensor, b: torch.Tensor, step: int) -> torch.Tensor:
    """One element of the result at a time."""
    total = torch.zeros(a.shape[0], b.shape[1])
    for start in range(0, a.shape[1], step):
        part = round_dl16((a[:, start : start + step] @ b[start : start + step]).contiguous())
        total = part if start == 0 else round_dl16(total + part)
    return total


@pytest.mark.parametrize(("policy", "chunk", "step"), [("serial", 64, 1), ("chunked", 64, 64), ("chunked", 256, 256)])
def test_partial_sums_are_rounded(policy: str, chunk: int, step: int) -> None:
    assert torch.equal(product_by(policy, chunk)(A, B), by_hand(A, B, step))


def test_fewer_roundings_are_nearer() -> None:
    exact = A.double() @ B.double()
    errors = [float((product_by(p, 64)(A, B) - exact).abs().mean()) for p in POLICIES]
    assert errors[0] < errors[1] < errors[2]


def test_batches_are_products_of_their_own() -> None:
    a, b = A.view(2, 4, 1000), torch.stack([B, -B])
    for policy in POLICIES:
        product = product_by(policy, 64)
        assert torch.equal(product(a, b), torch.stack([product(a[0], b[0]), product(a[1], b[1])]))


def test_a_serial_product_stops_growing_where_the_next_one_is_below_half_a_step() -> None:
    before = op_rounding()
    set_op_rounding(Rounding.NEAREST_EVEN)
    ones = torch.ones(1, 2000)
    found = [float(product_by(p, 64)(ones, ones.t())) for p in POLICIES]
    set_op_rounding(before)
    assert found == [2000.0, 2000.0, 1024.0]


def test_nothing_is_summed_over_an_empty_k() -> None:
    for policy in POLICIES:
        assert product_by(policy, 64)(torch.zeros(2, 0), torch.zeros(0, 3)).tolist() == [[0.0] * 3] * 2


def test_a_profile_names_its_policy_and_no_other() -> None:
    assert {load_profile(name).numerics["matmul_accumulation"] for name in list_profiles()} == {"fp32"}
    assert load_profile(overrides={"numerics.matmul_accumulation": "chunked"}).product_accumulation == {
        "products": ("chunked", 64)
    }
    with pytest.raises(SpyreProfileError, match="allowed: fp32, chunked, serial"):
        load_profile(overrides={"numerics.matmul_accumulation": "fp8"})
    with pytest.raises(ValueError, match="'fp8' is none of fp32, chunked, serial"):
        product_by("fp8", 64)
