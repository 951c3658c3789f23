"""The language's operations beyond element-wise ones: what sort their result is, and what they stand for in ATen.

A leaf module without torch; `evaluate` computes them. `row.*` are parts of ATen operations that a pattern can name
without the sizes of one model: the halves of the last axis, its odd and even lanes, rows of a table by number, zeros at
the end of each row or under the last one. `heads.*` are of [heads, rows, lanes] in groups of heads that share keys.
"""

from __future__ import annotations

REDUCTIONS = frozenset(
    f"aten.{name}"
    for name in ("mean.dim", "sum.dim_IntList", "amax.default", "logsumexp.default", "linalg_vector_norm.default",
                 "var.correction")
)  # fmt: skip
"""One number per row: over the last axis, which is kept."""

WIDE = frozenset(
    {
        "aten.matmul.default", "aten.linear.default", "aten.transpose.int", "aten.softmax.int", "aten.log_softmax.int",
        "aten.layer_norm.default", "aten.rms_norm.default", "aten.cumsum.default", "aten.glu.default",
        "aten.scaled_dot_product_attention.default", "aten.embedding.default", "aten.gather.default",
        "row.first", "row.second", "row.cat", "row.even", "row.odd", "row.interleave", "row.chosen", "row.padded",
        "row.under", "heads.repeated", "heads.folded", "heads.unfolded", "heads.tiled",
    }
)  # fmt: skip
"""Operations on whole rows whose result has whole rows; matrix products are opaque but for the rules that name them."""

BY_NUMBER = frozenset({"row.one_hot", "row.lanes"})
"""Tables of 0 and 1 that indices make; of what is looked up they know the size only."""

STANDS_FOR = {
    "row.first": "aten.slice.Tensor",
    "row.second": "aten.slice.Tensor",
    "row.even": "aten.slice.Tensor",
    "row.odd": "aten.slice.Tensor",
    "row.cat": "aten.cat.default",
    "row.interleave": "aten.cat.default",
    "row.one_hot": "aten.one_hot.default",
    "row.lanes": "aten.one_hot.default",
    "row.chosen": "aten.matmul.default",
    "row.padded": "aten.constant_pad_nd.default",
    "row.under": "aten.constant_pad_nd.default",
    "heads.repeated": "aten.expand.default",
    "heads.folded": "aten.view.default",
    "heads.unfolded": "aten.view.default",
    "heads.tiled": "aten.cat.default",
}
"""What the device would have to compute."""

HOST_NAMES = ("weight", "table", "position")
"""Inputs that no activation has a part in begin so: what is made of them alone is made once, on the host."""
