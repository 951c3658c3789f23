"""What terms compute, in torch: element-wise operators by the documents' dictionary, the rest by the table here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from adapters.document_ops import OPERATORS
from agents.drafters.rules.terms import Call, Const, Term


def evaluate(term: Term, values: Mapping[str, Tensor]) -> Tensor:
    """The value of a term or of a pattern's side, its inputs and holes by name. Raises KeyError for what is missing."""
    if not isinstance(term, Call):
        return values[term.name]  # type: ignore[union-attr]
    args = [a.value if isinstance(a, Const) else evaluate(a, values) for a in term.args]
    return function_of(term.op)(*args, **dict(term.kwargs))


def function_of(op: str) -> Callable[..., Tensor]:
    """What computes an operation of the language. Raises KeyError for a name in no table."""
    return ROWS[op] if op in ROWS else OPERATORS[op]


def table_of(name: str, size: int) -> Tensor:
    """The constant matrix that an input `table_*` stands for, for rows of `size`; fp64."""
    return TABLES[name](torch.eye(size, dtype=torch.float64))


def _half_turn(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return torch.cat([-x[..., half:], x[..., :half]], -1)


def _pair_turn(x: Tensor) -> Tensor:
    return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)


TABLES: dict[str, Callable[[Tensor], Tensor]] = {
    "table_half_turn": _half_turn,
    "table_pair_turn": _pair_turn,
    "table_upper": lambda x: torch.ones_like(x).triu(),
}
"""Matrices made on the host, as the function of the identity that they are."""


def _attention(q: Tensor, k: Tensor, v: Tensor, mask: Any, p: float, causal: bool, scale: float) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, mask, p, causal, scale=scale)


def _one_hot(index: Tensor, table: Tensor) -> Tensor:
    return F.one_hot(index, table.shape[-2]).to(table.dtype)


def _chosen(x: Tensor, hot: Tensor) -> Tensor:
    """[..., n] times [..., m, n]: for each row the sum over the lanes that `hot` holds."""
    return (hot @ x.unsqueeze(-1)).squeeze(-1)


ROWS: dict[str, Callable[..., Tensor]] = {
    "aten.mean.dim": lambda x, d, keep: x.mean(d, keep),
    "aten.sum.dim_IntList": lambda x, d, keep: x.sum(d, keep),
    "aten.amax.default": lambda x, d, keep: x.amax(d, keep),
    "aten.logsumexp.default": lambda x, d, keep: x.logsumexp(d, keep),
    "aten.linalg_vector_norm.default": lambda x, p, d, keep: torch.linalg.vector_norm(x, p, d, keep),
    "aten.var.correction": lambda x, d, correction, keep: x.var(d, correction=int(correction), keepdim=keep),
    "aten.matmul.default": torch.matmul,
    "aten.linear.default": F.linear,
    "aten.transpose.int": lambda x, a, b: x.transpose(int(a), int(b)),
    "aten.softmax.int": lambda x, d: x.softmax(int(d)),
    "aten.log_softmax.int": lambda x, d: x.log_softmax(int(d)),
    "aten.layer_norm.default": lambda x, n, w, b, eps: F.layer_norm(x, n, w, b, eps),
    "aten.rms_norm.default": lambda x, n, w, eps: F.rms_norm(x, n, w, eps),
    "aten.cumsum.default": lambda x, d: x.cumsum(int(d)),
    "aten.glu.default": lambda x, d: F.glu(x, int(d)),
    "aten.scaled_dot_product_attention.default": _attention,
    "aten.embedding.default": lambda table, index: F.embedding(index, table),
    "aten.gather.default": lambda x, d, index: x.gather(int(d), index),
    "aten.sin.default": torch.sin,
    "aten.cos.default": torch.cos,
    "aten.masked_fill.Scalar": lambda x, mask, value: x.masked_fill(mask, value),
    "row.first": lambda x: x[..., : x.shape[-1] // 2],
    "row.second": lambda x: x[..., x.shape[-1] // 2 :],
    "row.cat": lambda x, y: torch.cat([x, y], -1),
    "row.even": lambda x: x[..., ::2],
    "row.odd": lambda x: x[..., 1::2],
    "row.interleave": lambda x, y: torch.stack([x, y], -1).flatten(-2),
    "row.one_hot": _one_hot,
    "row.lanes": lambda index, x: F.one_hot(index, x.shape[-1]).to(x.dtype),
    "row.chosen": _chosen,
    "row.padded": lambda x, n: F.pad(x, (0, int(n))),
    "row.under": lambda x, n: F.pad(x, (0, 0, 0, int(n))),
    "heads.repeated": lambda x, g: x.repeat_interleave(int(g), -3),
    "heads.folded": lambda x, g: x.unflatten(-3, (-1, int(g))).flatten(-3, -2),
    "heads.unfolded": lambda x, g: x.unflatten(-2, (int(g), -1)).flatten(-4, -3),
    "heads.tiled": lambda x, g: torch.cat([x] * int(g), -2),
}
"""Operation → function of positional arguments; the last axis is that of rows, the third from the end that of heads."""
