"""Costs of single operations follow the formulas of facts 7.2."""

from __future__ import annotations

import pytest

from sim_backend.cost import load_costs

N = 512 * 3072


def test_memory_counts_both_directions_and_the_turnaround_of_the_smaller() -> None:
    assert load_costs().memory_ns(2 * N, N) == pytest.approx(6 * N / 150.0 + 0.00574 * 2 * N)


@pytest.mark.fact("7.2")
def test_a_sustained_product_is_within_the_published_prediction() -> None:
    """Granite's prefill Q projection: 331 us measured, the model is said to be within -18 to +7 %."""
    assert 0.7 < load_costs().matmul_ns(512 * 4096, 4096, rows=512) / 331e3 < 1.3


def test_transcendentals_cost_more_than_products_and_views_nothing() -> None:
    costs = load_costs()
    assert costs.op_ns("aten.tanh.default", N) > costs.op_ns("aten.mul.Scalar", N)
    assert costs.op_ns("aten.mul.Tensor", N, operands=2) > costs.op_ns("aten.mul.Scalar", N)
    assert costs.op_ns("aten.view.default", N) == 0.0


def test_costs_grow_with_the_size() -> None:
    costs = load_costs()
    for op in ("aten.mul.Tensor", "aten.sum.dim_IntList", "aten.softmax.int", "aten.mm.default"):
        assert costs.op_ns(op, 2 * N, 2, 64) > costs.op_ns(op, N, 2, 64) > 0
