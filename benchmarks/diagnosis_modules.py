"""Constructed models for faults that no family triggers: two layers around the operation that meets the fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F
from transformers import BertConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

WIDTH, HEAD = 128, 64
VOCABULARY = 160
TABLES = {
    "halves": (HEAD,),
    "column": (WIDTH, 1),
    "wide": (WIDTH, 32_064),
    "narrow": (32_064, WIDTH),
    "page": (4, WIDTH),
    "odd": (WIDTH, 4_304),
    "even": (4_304, WIDTH),
    "kernel": (1, 1, 2, 2),
    "square": (WIDTH, WIDTH),
    "one": (1, WIDTH),
    "ragged": (WIDTH, 200),
    "back": (200, WIDTH),
}
"""Parameters that an operation may ask for, by name, and their shapes."""


class Constructed(NamedTuple):
    """`operation(x, **weights)` maps [batch, length, WIDTH] to what is added to it; `needs` names its weights."""

    fault: str
    operation: Callable[..., torch.Tensor]
    needs: tuple[str, ...] = ()
    is_whole: bool = False
    """The operation's result is the layer's, whatever its shape."""
    by_value: str = ""
    """The operation that is wrong, where only values decide that it is and the simulator's report does not say."""


def _heads(x: torch.Tensor) -> torch.Tensor:
    return x.unflatten(-1, (-1, HEAD)).transpose(1, 2)


def _joined(heads: torch.Tensor) -> torch.Tensor:
    return heads.transpose(1, 2).flatten(2)


def largest_first(x: torch.Tensor) -> torch.Tensor:
    """A cat with a part of one row."""
    return torch.cat([x.amax(1, keepdim=True), x], 1)[:, : x.shape[1]]


def small_norm(x: torch.Tensor) -> torch.Tensor:
    """LayerNorm of 32 numbers."""
    factors = F.layer_norm(x.mean((0, 1)).unflatten(-1, (4, 32))[0], (32,))
    return (x.unflatten(-1, (4, 32)) * factors).flatten(-2)


def tables(x: torch.Tensor, halves: torch.Tensor) -> torch.Tensor:
    """Cosines and sines of positions made where the block runs."""
    angles = torch.outer(torch.arange(x.shape[1], device=x.device, dtype=x.dtype), halves)
    return x * torch.cat((angles.cos(), angles.sin()), -1)


def reversed_rows(x: torch.Tensor) -> torch.Tensor:
    """Rows copied by index into another order."""
    places = torch.arange(x.shape[1] - 1, -1, -1, device=x.device)
    return torch.zeros_like(x).index_copy(1, places, x)


def two_gathers(x: torch.Tensor) -> torch.Tensor:
    """Two gathers in one graph by different indices."""
    upwards = torch.arange(WIDTH, device=x.device)
    downwards = torch.arange(WIDTH - 1, -1, -1, device=x.device)
    return x[:, :, upwards] * x[:, :, downwards]


def inner_columns(x: torch.Tensor) -> torch.Tensor:
    """Columns that begin inside a stick."""
    middle = x[..., 32:96] * 2.0
    return torch.cat([middle, middle], -1)


def cut_heads(x: torch.Tensor) -> torch.Tensor:
    """Heads, sliced and transposed, in a fused graph."""
    cut = _joined(F.gelu(_heads(x)[:, 1:] * 1.5))
    return torch.cat([cut, cut], -1)


def every_second_row(x: torch.Tensor) -> torch.Tensor:
    """A slice that begins behind the start and steps over rows."""
    return F.gelu(torch.cat([x, x * 0.5], 1)[:, 1::2])


def one_token_page(x: torch.Tensor, page: torch.Tensor) -> torch.Tensor:
    """A table indexed with a number that lies on the device, without a subscript's reading of it on the host."""
    number = torch.full((), 2, device=x.device, dtype=torch.int64)
    return x * torch.ops.aten.index.Tensor(page, [number])


def unequal_heads(x: torch.Tensor) -> torch.Tensor:
    """Attention whose values are wider than its queries."""
    heads = _heads(x).contiguous()
    wide = F.scaled_dot_product_attention(heads, heads, torch.cat([heads, heads], -1))
    return _joined(wide[..., :HEAD])


def head_norm(x: torch.Tensor, halves: torch.Tensor) -> torch.Tensor:
    """RMSNorm of transposed heads."""
    heads = _heads(x)
    return _joined((heads * torch.rsqrt(heads.pow(2).mean(-1, keepdim=True) + 1e-6)).clone() * halves)


def turned(x: torch.Tensor) -> torch.Tensor:
    """Hidden states that leave the block as a transposed view: [batch, length, heads, HEAD] and back."""
    rows = (x * 1.5).reshape(x.shape[0], x.shape[1], -1, HEAD) if x.ndim == 3 else x * 1.5
    return rows.reshape(rows.shape).transpose(1, 2)


def strided_convolution(x: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
    """A convolution over [length, WIDTH] with a stride of two."""
    return x + F.conv2d(x.unsqueeze(1), kernel, stride=2, padding=1).mean((1, 2, 3))[:, None, None]


def one_row_table(x: torch.Tensor, one: torch.Tensor) -> torch.Tensor:
    """Rows of a table that has one."""
    return x + F.embedding(torch.zeros(x.shape[:2], dtype=torch.int64, device=x.device), one)


def one_row_taken(x: torch.Tensor, page: torch.Tensor) -> torch.Tensor:
    """One row of a table."""
    return x + F.embedding(torch.zeros(1, dtype=torch.int64, device=x.device), page)


def rank_six(x: torch.Tensor) -> torch.Tensor:
    """Rows selected from a result of rank six."""
    six = x.unflatten(-1, (2, 2, 2, 16)) * 1.5
    chosen = six[:, :, :, 0, 0].flatten(2)
    return torch.cat([chosen] * 4, -1)


def later_rows(x: torch.Tensor) -> torch.Tensor:
    """Integers compared with a constant."""
    places = torch.arange(x.shape[1], device=x.device)
    return torch.where((places > 3)[:, None], x, 0.5 * x)


def added_rows(x: torch.Tensor) -> torch.Tensor:
    """Rows added in place by index."""
    places = torch.arange(x.shape[1] - 1, -1, -1, device=x.device)
    return torch.zeros_like(x).index_add_(1, places, x)


CONSTRUCTED: dict[str, Constructed] = {
    "made-rms-of-heads": Constructed("E-03", head_norm, ("halves",)),
    "made-heads-leave": Constructed("E-04", turned, is_whole=True),
    "made-cat-of-one": Constructed("E-06", largest_first),
    "made-inverse-root": Constructed("E-10", lambda x: torch.pow(x * x + 1.0, -0.5)),
    "made-tensor-power": Constructed("E-11", lambda x: torch.pow(x.abs() + 0.5, torch.sigmoid(x))),
    "made-bare-norm": Constructed("E-12", lambda x: F.layer_norm(x, (WIDTH,))),
    "made-small-norm": Constructed("E-13", small_norm),
    "made-flat-rows": Constructed(
        "E-14", lambda x: F.layer_norm(x * 0.002 + 1.0, (WIDTH,)), by_value="aten.native_layer_norm"
    ),
    "made-tables": Constructed("E-19", tables, ("halves",)),
    "made-odd-inner": Constructed("E-23", lambda x, odd, even: x @ odd @ even, ("odd", "even")),
    "made-one-column": Constructed("E-25", lambda x, column: x + x @ column, ("column",)),
    "made-wide": Constructed("E-26", lambda x, wide, narrow: (x @ wide) @ narrow, ("wide", "narrow")),
    "made-one-row": Constructed("E-30", one_row_taken, ("page",)),
    "made-one-row-table": Constructed("E-71", one_row_table, ("one",)),
    "made-rank-six": Constructed("E-73", rank_six),
    "made-later-rows": Constructed("E-51", later_rows),
    "made-added-rows": Constructed("E-52", added_rows),
    "made-ragged-inner": Constructed("E-68", lambda x, ragged, back: x @ ragged @ back, ("ragged", "back")),
    "made-page": Constructed("E-27", one_token_page, ("page",)),
    "made-index-copy": Constructed("E-28", reversed_rows),
    "made-two-gathers": Constructed("E-29", two_gathers),
    "made-steps": Constructed("E-31", every_second_row),
    "made-inner-columns": Constructed("E-35", inner_columns),
    "made-cut-heads": Constructed("E-36", cut_heads),
    "made-swapped": Constructed("E-37", lambda x: F.gelu(x.transpose(1, 2) * 1.5).transpose(1, 2)),
    "made-ragged-mean": Constructed("E-40", lambda x: x + (x[..., :40] * 1.5).mean(-1, keepdim=True)),
    "made-unequal": Constructed("E-41", lambda x: torch.where(x != 0, x, 1.0)),
    "made-broadcast": Constructed("E-42", lambda x: x + x.amax(-1, keepdim=True)),
    "made-softplus": Constructed("E-47", lambda x: F.softplus(x, beta=2.0)),
    "made-convolution": Constructed("E-49", strided_convolution, ("kernel",)),
    "made-single-product": Constructed("E-65", lambda x, square: (x.float() @ square.float()).to(x.dtype), ("square",)),
    "made-unequal-heads": Constructed("E-72", unequal_heads),
}
"""Model name → what its layers do."""


class Layer(nn.Module):
    """A product, then the constructed operation."""

    def __init__(self, made: Constructed) -> None:
        super().__init__()
        self.made = made
        self.dense = nn.Linear(HEAD if made.is_whole else WIDTH, HEAD if made.is_whole else WIDTH)
        self.tables = nn.ParameterDict({name: nn.Parameter(torch.zeros(TABLES[name])) for name in made.needs})

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        given = {name: self.tables[name] for name in self.made.needs}
        if self.made.is_whole:
            return self.made.operation(hidden_states, **given)
        return hidden_states + self.made.operation(self.dense(hidden_states), **given)


class ConstructedModel(PreTrainedModel):  # type: ignore[misc]
    """Token table, two layers, nothing else: ids [batch, length] to hidden states [batch, length, WIDTH]."""

    config_class = BertConfig

    def __init__(self, made: Constructed) -> None:
        config = BertConfig(vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=2)
        super().__init__(config)
        self.embeddings = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList([Layer(made), Layer(made)])

    def get_input_embeddings(self) -> nn.Module:
        return self.embeddings

    def forward(self, input_ids: torch.Tensor, attention_mask: Any = None, **_: Any) -> BaseModelOutput:
        hidden = self.embeddings(input_ids)
        for layer in self.layers:
            hidden = layer(hidden)
        return BaseModelOutput(last_hidden_state=hidden.reshape(*input_ids.shape, WIDTH))


def constructed(name: str) -> Any:
    """The model of a row of the table, fp32 on the CPU, eval; its weights are drawn by who asked."""
    return ConstructedModel(CONSTRUCTED[name]).eval()
