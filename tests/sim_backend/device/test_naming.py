"""The device's operation names become the user's."""

from __future__ import annotations

import pytest
import torch

from sim_backend.device.naming import aten_name, user_op

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (aten.pow.Tensor_Scalar_out, "aten.pow.Tensor_Scalar"),
        (aten.add.out, "aten.add.Tensor"),
        (aten.add_.Scalar, "aten.add.Scalar"),
        (aten.mm.out, "aten.mm.default"),
        (aten.relu_.default, "aten.relu.default"),
        (aten.gelu.out, "aten.gelu.default"),
        (aten.cat.out, "aten.cat.default"),
        (aten.arange.start_out, "aten.arange.default"),
        (aten.mean.out, "aten.mean.dim"),
        (aten.sum.IntList_out, "aten.sum.dim_IntList"),
        (aten.ne.Scalar_out, "aten.ne.Scalar"),
        (aten.fill_.Scalar, "aten.fill.Scalar"),
        (aten.native_layer_norm.default, "aten.native_layer_norm.default"),
        (aten.index.Tensor_out, "aten.index.Tensor"),
        (aten.masked_fill_.Scalar, "aten.masked_fill.Scalar"),
    ],
)
def test_out_and_in_place_forms_map_to_the_functional_operation(op, expected: str) -> None:
    assert user_op(op) == expected


def test_messages_spell_it_as_torch_does() -> None:
    assert aten_name("aten.pow.Tensor_Scalar") == "aten::pow.Tensor_Scalar"
    assert aten_name("aten.gelu.default") == "aten::gelu"
