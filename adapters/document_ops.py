"""The operators a document may name: one dictionary, from text to overload. Nothing is ever looked up by `getattr`.

All are element-wise and deterministic. Comparisons give a mask; `where` reads it. No operator writes to its input,
draws random numbers, moves, casts or reshapes.
"""

from __future__ import annotations

import torch

_aten = torch.ops.aten

_OVERLOADS = (
    _aten.abs.default,
    _aten.add.Scalar,
    _aten.add.Tensor,
    _aten.clamp.default,
    _aten.clamp_max.default,
    _aten.clamp_min.default,
    _aten.div.Scalar,
    _aten.div.Tensor,
    _aten.elu.default,
    _aten.erf.default,
    _aten.exp.default,
    _aten.ge.Scalar,
    _aten.ge.Tensor,
    _aten.gelu.default,
    _aten.gt.Scalar,
    _aten.gt.Tensor,
    _aten.hardtanh.default,
    _aten.le.Scalar,
    _aten.le.Tensor,
    _aten.leaky_relu.default,
    _aten.log.default,
    _aten.log1p.default,
    _aten.lt.Scalar,
    _aten.lt.Tensor,
    _aten.maximum.default,
    _aten.minimum.default,
    _aten.mish.default,
    _aten.mul.Scalar,
    _aten.mul.Tensor,
    _aten.neg.default,
    _aten.pow.Scalar,
    _aten.pow.Tensor_Scalar,
    _aten.pow.Tensor_Tensor,
    _aten.reciprocal.default,
    _aten.relu.default,
    _aten.rsqrt.default,
    _aten.rsub.Scalar,
    _aten.rsub.Tensor,
    _aten.sigmoid.default,
    _aten.sign.default,
    _aten.silu.default,
    _aten.softplus.default,
    _aten.sqrt.default,
    _aten.square.default,
    _aten.sub.Scalar,
    _aten.sub.Tensor,
    _aten.tanh.default,
    _aten.where.self,
    _aten.where.Scalar,
    _aten.where.ScalarOther,
    _aten.where.ScalarSelf,
)

OPERATORS: dict[str, torch._ops.OpOverload] = {str(op): op for op in _OVERLOADS}
"""`aten.mul.Tensor` → overload."""

NAMES: dict[torch._ops.OpOverload, str] = {op: name for name, op in OPERATORS.items()}
"""The other way round, for capture."""

STRINGS = frozenset({"none", "tanh"})
"""The only text that may stand as an argument (`approximate` of gelu)."""
