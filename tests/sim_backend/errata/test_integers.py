"""E-51: bits of integers combined with constants. Comparisons, stored bools and subscripts: see test_operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor.exc import InductorError

from sim_backend.errors import FallbackWarning, Unsupported

from .calls import call_of, operand, profiles_with, triggered

pytestmark = pytest.mark.fact("E-51", "6.8")
IDS = torch.arange(64).reshape(1, 64)
INTS = operand(1, 64, dtype=torch.int64)


@pytest.mark.parametrize("packed", [lambda ids: ids & 3, lambda ids: ids | 4, lambda ids: ids ^ 1])
def test_e51_bits_of_integers_with_a_constant_are_refused_in_a_graph(
    packed: Callable[[torch.Tensor], torch.Tensor], use: Any, run: Callable[..., Any]
) -> None:
    with pytest.raises(InductorError, match=r"bitwise_\w+ on DataFormats.IEEE_INT32"):
        run(packed, IDS)


def test_e51_bits_of_integers_with_a_constant_are_refused_in_eager_code(use: Any) -> None:
    with pytest.raises(Unsupported, match=r"bitwise_or on DataFormats.IEEE_INT32"):
        IDS.to("spyre") | (1 << 20)


def test_e51_two_integer_tensors_and_bools_are_spared(use: Any) -> None:
    bools = operand(1, 64, dtype=torch.bool)
    assert triggered(call_of("aten.bitwise_or.Tensor", INTS, INTS)) == []
    assert triggered(call_of("aten.bitwise_and.Tensor", bools, bools)) == []
    device = IDS.to("spyre")
    with pytest.warns(FallbackWarning, match="bitwise_or"):
        assert torch.equal((device | device).cpu(), IDS)


def test_e51_a_constant_that_became_a_tensor_counts() -> None:
    scalar = operand(dtype=torch.int64)
    packed = call_of("aten.bitwise_or.Tensor", INTS, scalar, form="eager")
    assert profiles_with(packed, "E-51") == ["2026-04", "2026-08", "2026-09"]
    shifted = call_of("aten.bitwise_left_shift.Tensor_Scalar", INTS, 30)
    assert triggered(shifted) == ["E-51"]
    assert triggered(shifted, overrides={"errata": {"E-51": {"bit_operations": "legal"}}}) == []
