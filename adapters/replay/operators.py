"""The operators a model's document may name: one dictionary, from text to overload. Nothing is looked up otherwise.

Three tables say where an operator may stand: `PURE` anywhere, `SURGERY` only in the section of constants, `ON_HOST`
lists what of `PURE` may run on the host of a placed model. No operator draws random numbers, reads memory that
was not written, or has Python behind it.
"""

from __future__ import annotations

import torch

_aten = torch.ops.aten

_VIEWS = (
    _aten.chunk.default,
    _aten.contiguous.default,
    _aten.diagonal.default,
    _aten.expand.default,
    _aten.expand_as.default,
    _aten.flatten.using_ints,
    _aten.movedim.int,
    _aten.narrow.default,
    _aten.permute.default,
    _aten.repeat.default,
    _aten.repeat_interleave.self_int,
    _aten.reshape.default,
    _aten.reshape_as.default,
    _aten.select.int,
    _aten.slice.Tensor,
    _aten.split.Tensor,
    _aten.split_with_sizes.default,
    _aten.squeeze.default,
    _aten.squeeze.dim,
    _aten.squeeze.dims,
    _aten.t.default,
    _aten.transpose.int,
    _aten.unbind.int,
    _aten.unflatten.int,
    _aten.unsqueeze.default,
    _aten.view.default,
    _aten.view_as.default,
)
_COPIES = (
    _aten._to_copy.default,
    _aten.cat.default,
    _aten.clone.default,
    _aten.constant_pad_nd.default,
    _aten.flip.default,
    _aten.gather.default,
    _aten.im2col.default,
    _aten.index.Tensor,
    _aten.index_select.default,
    _aten.pad.default,
    _aten.roll.default,
    _aten.select_scatter.default,
    _aten.slice_scatter.default,
    _aten.stack.default,
    _aten.to.device,
    _aten.to.dtype,
    _aten.to.dtype_layout,
    _aten.to.other,
    _aten.tril.default,
    _aten.triu.default,
    _aten.type_as.default,
    _aten.embedding.default,
)
_FACTORIES = (
    _aten.arange.default,
    _aten.arange.start,
    _aten.arange.start_step,
    _aten.eye.default,
    _aten.full.default,
    _aten.full_like.default,
    _aten.linspace.default,
    _aten.new_full.default,
    _aten.new_ones.default,
    _aten.new_zeros.default,
    _aten.ones.default,
    _aten.ones_like.default,
    _aten.scalar_tensor.default,
    _aten.zeros.default,
    _aten.zeros_like.default,
)
_ELEMENTWISE = (
    _aten.__and__.Tensor,
    _aten.__or__.Tensor,
    _aten.abs.default,
    _aten.add.Scalar,
    _aten.add.Tensor,
    _aten.any.default,
    _aten.any.dim,
    _aten.all.default,
    _aten.all.dim,
    _aten.bitwise_and.Tensor,
    _aten.bitwise_not.default,
    _aten.bitwise_or.Tensor,
    _aten.ceil.default,
    _aten.clamp.default,
    _aten.clamp.Tensor,
    _aten.clamp_max.default,
    _aten.clamp_min.default,
    _aten.cos.default,
    _aten.cumsum.default,
    _aten.div.Scalar,
    _aten.div.Tensor,
    _aten.div.Tensor_mode,
    _aten.eq.Scalar,
    _aten.eq.Tensor,
    _aten.exp.default,
    _aten.floor.default,
    _aten.floor_divide.default,
    _aten.ge.Scalar,
    _aten.ge.Tensor,
    _aten.gt.Scalar,
    _aten.gt.Tensor,
    _aten.isinf.default,
    _aten.isnan.default,
    _aten.layer_norm.default,
    _aten.le.Scalar,
    _aten.le.Tensor,
    _aten.log.default,
    _aten.log1p.default,
    _aten.logical_and.default,
    _aten.logical_not.default,
    _aten.logical_or.default,
    _aten.lt.Scalar,
    _aten.lt.Tensor,
    _aten.masked_fill.Scalar,
    _aten.masked_fill.Tensor,
    _aten.maximum.default,
    _aten.min.other,
    _aten.minimum.default,
    _aten.mul.Scalar,
    _aten.mul.Tensor,
    _aten.ne.Scalar,
    _aten.ne.Tensor,
    _aten.neg.default,
    _aten.pow.Scalar,
    _aten.pow.Tensor_Scalar,
    _aten.pow.Tensor_Tensor,
    _aten.reciprocal.default,
    _aten.remainder.Scalar,
    _aten.rsqrt.default,
    _aten.rsub.Scalar,
    _aten.rsub.Tensor,
    _aten.sign.default,
    _aten.sin.default,
    _aten.sqrt.default,
    _aten.square.default,
    _aten.sub.Scalar,
    _aten.sub.Tensor,
    _aten.where.Scalar,
    _aten.where.ScalarOther,
    _aten.where.ScalarSelf,
    _aten.where.self,
)
_DEVICE_ONLY = (
    _aten.amax.default,
    _aten.amin.default,
    _aten.elu.default,
    _aten.erf.default,
    _aten.gelu.default,
    _aten.glu.default,
    _aten.hardtanh.default,
    _aten.leaky_relu.default,
    _aten.linalg_vector_norm.default,
    _aten.max.other,
    _aten.mean.default,
    _aten.mean.dim,
    _aten.mish.default,
    _aten.relu.default,
    _aten.rms_norm.default,
    _aten.sigmoid.default,
    _aten.silu.default,
    _aten.softplus.default,
    _aten.sum.default,
    _aten.sum.dim_IntList,
    _aten.tanh.default,
    _aten.var.correction,
)
_MATRIX = (
    _aten._softmax.default,
    _aten.addmm.default,
    _aten.baddbmm.default,
    _aten.bmm.default,
    _aten.conv1d.default,
    _aten.linear.default,
    _aten.matmul.default,
    _aten.mm.default,
    _aten.scaled_dot_product_attention.default,
    _aten.softmax.int,
)
_SURGERY = (
    _aten._reshape_alias.default,
    _aten._unsafe_view.default,
    _aten.add_.Scalar,
    _aten.add_.Tensor,
    _aten.addmv.default,
    _aten.alias.default,
    _aten.as_strided.default,
    _aten.copy_.default,
    _aten.detach.default,
    _aten.diag_embed.default,
    _aten.div_.Scalar,
    _aten.div_.Tensor,
    _aten.dot.default,
    _aten.fill_.Scalar,
    _aten.fill_.Tensor,
    _aten.index_copy_.default,
    _aten.lift_fresh.default,
    _aten.lift_fresh_copy.default,
    _aten.mul_.Scalar,
    _aten.mul_.Tensor,
    _aten.mv.default,
    _aten.neg_.default,
    _aten.sub_.Scalar,
    _aten.sub_.Tensor,
    _aten.zero_.default,
)

Table = dict[str, torch._ops.OpOverload]


def _named(*groups: tuple[torch._ops.OpOverload, ...]) -> Table:
    return {str(op): op for group in groups for op in group}


PURE: Table = _named(_VIEWS, _COPIES, _FACTORIES, _ELEMENTWISE, _DEVICE_ONLY, _MATRIX)
"""What blocks, skeleton and constants may use."""

SURGERY: Table = {**PURE, **_named(_SURGERY)}
"""What constants may use as well: operators that write, on private copies, and copies no block needs."""

ON_HOST = frozenset(_named(_VIEWS, _COPIES, _FACTORIES, _ELEMENTWISE))
"""What may run on the host of a placed model: ids, masks, positions, tables. No matrix product, no softmax, no sum."""

WHOLE_NUMBERS_ON_HOST = frozenset({"aten.sum.default", "aten.sum.dim_IntList"})
"""May run on the host on integers and masks."""

WHOLE_NUMBERS_ONLY = frozenset({"aten.cumsum.default"})
"""On the host only on integers: with floats it would be half of a matrix product."""

MATRIX = frozenset(_named(_MATRIX))
"""The heavy operators: few of them may stand on the device outside blocks."""

SOFTMAX = frozenset({"aten._softmax.default", "aten.softmax.int"})
"""Among them those that multiply nothing: a softmax may be wider than the matrices around it."""

VIEWS = frozenset(_named(_VIEWS))
"""Operators that compute nothing."""

MOVES = frozenset({"aten._to_copy.default", "aten.to.device", "aten.to.dtype_layout"})
"""Operators that may change the device."""

STRINGS: dict[tuple[str, str], frozenset[str]] = {
    ("aten.gelu.default", "approximate"): frozenset({"none", "tanh"}),
    ("aten.pad.default", "mode"): frozenset({"constant"}),
    ("aten.div.Tensor_mode", "rounding_mode"): frozenset({"floor", "trunc"}),
}
"""The only texts that may stand as arguments, by operator and argument."""

FIXED: dict[tuple[str, str], tuple[object, ...]] = {
    ("aten.scaled_dot_product_attention.default", "dropout_p"): (0, 0.0),
    ("aten.embedding.default", "scale_grad_by_freq"): (False,),
    ("aten.embedding.default", "sparse"): (False,),
}
"""Arguments with only these values: what would make an operator random or change its kind."""
