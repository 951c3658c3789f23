"""P27 and P06: fused projections split into plain linears, once, on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from ..errors import PatchDoesNotApply
from ..rebinding import calls_by_name, give, global_of, own_function
from ..reversal import Reversal
from ..structure import head_size_of
from .base import Patch, PatchContext, Target, Undo, types_of

QKV = ("q_proj", "k_proj", "v_proj")
APPLY, EAGER, INTERFACE = "apply_rotary_pos_emb", "eager_attention_forward", "ALL_ATTENTION_FUNCTIONS"

apply_rotary_pos_emb: Any = None
eager_attention_forward: Any = None
ALL_ATTENTION_FUNCTIONS: Any = None
"""Names that `split_forward` uses: `give` fills them with the stock model's own."""

Rows = Callable[[torch.Tensor, int, int, int], list[torch.Tensor]]
"""(fused [all rows, ...], head size, query heads, key heads) → the rows of q, k and v."""


def block_rows(fused: torch.Tensor, size: int, heads: int, kv_heads: int) -> list[torch.Tensor]:
    """[Q; K; V] one after the other."""
    return list(fused.split([heads * size, kv_heads * size, kv_heads * size]))


def head_rows(fused: torch.Tensor, size: int, heads: int, kv_heads: int) -> list[torch.Tensor]:
    """Per head its rows of q, k and v."""
    by_head = fused.unflatten(0, (heads, 3, size))
    return [by_head[:, n].flatten(0, 1) for n in range(3)]


class Fused(NamedTuple):
    """A fused attention: the linears' names, how its rows lie, and the name of its output projection."""

    name: str
    output: str
    rows: Rows


FUSED = (
    Fused("Wqkv", "Wo", block_rows),
    Fused("qkv_proj", "o_proj", block_rows),
    Fused("query_key_value", "dense", head_rows),
    Fused("c_attn", "c_proj", block_rows),
)
LINEARS = (nn.Linear, Conv1D)


class Gate(NamedTuple):
    """A fused gated unit: names of the fused linear, the second linear and the activation; which half is activated."""

    name: str
    down: str
    activation: str
    activated: int


GATES = (
    Gate("Wi", "Wo", "act", 0),
    Gate("gate_up_proj", "down_proj", "activation_fn", 0),
    Gate("up_gate_proj", "down_proj", "act_fn", 1),
)


@dataclass(frozen=True)
class SplitAttention(Patch):
    """Gives attention modules with one fused projection a plain linear each for queries, keys and values."""

    pattern: ClassVar[str] = "P27"
    mathematics: ClassVar[str] = "rows of one matrix as three matrices"

    def match(self, model: nn.Module) -> list[Target]:
        """The attention modules with a fused projection. Raises PatchDoesNotApply if there is none."""
        targets = [Target(p, m) for p, m in model.named_modules() if fused_of(m) is not None]
        if not targets:
            raise PatchDoesNotApply("P27: no attention module fuses queries, keys and values in a known layout")
        return targets

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Puts three linears in each place; the forward becomes the plain one with the stock helpers."""
        undo = Reversal()
        for target in self.match(model):
            _split(target.module, undo)
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The attention classes."""
        return types_of(self.match(model))


def fused_of(module: nn.Module) -> Fused | None:
    """The row of the table that the module has, or None."""
    function = own_function(module)
    if function is None or head_size_of(module) is None or INTERFACE not in function.__code__.co_names:
        return None
    found = (f for f in FUSED if all(type(module._modules.get(n)) in LINEARS for n in (f.name, f.output)))
    return next(found, None)


def _split(module: nn.Module, undo: Reversal) -> None:
    fused, size = fused_of(module), head_size_of(module)
    assert fused is not None
    assert size is not None
    stock: Any = module._modules[fused.name]
    given = {n: p.detach() for n, p in stock.named_parameters()}
    output: Any = module._modules[fused.output]
    heads = rows_of(output).shape[1] // size
    kv_heads = (rows_of(stock).shape[0] // size - heads) // 2
    given["weight"] = rows_of(stock)
    parts = {n: fused.rows(p, size, heads, kv_heads) for n, p in given.items()}
    for place, name in enumerate(QKV):
        undo.set_module(module, name, linear_of({n: rows[place] for n, rows in parts.items()}))
    undo.drop_item(module._modules, fused.name)
    undo.set_module(module, "o_proj", output)
    if not isinstance(getattr(module, "scaling", None), float):
        undo.set_attribute(module, "scaling", size**-0.5)
    undo.set_attribute(module, "head_dim", size)
    turns = calls_by_name(module, APPLY)
    names = {n: global_of(module, n) for n in (EAGER, INTERFACE, *((APPLY,) if turns else ()))}
    give(undo, module, split_forward if turns else plain_forward, names)


def rows_of(linear: Any) -> torch.Tensor:
    """The weight as [out, in]."""
    weight: torch.Tensor = linear.weight.detach()
    return weight.t() if isinstance(linear, Conv1D) else weight


def linear_of(parts: dict[str, torch.Tensor]) -> nn.Linear:
    """A linear with the given weight [out, in] and, if it is there, bias; nothing is initialised."""
    weight = parts["weight"]
    linear = nn.utils.skip_init(nn.Linear, weight.shape[1], weight.shape[0], bias="bias" in parts, device="meta")
    for name, value in parts.items():
        linear._parameters[name] = nn.Parameter(value.contiguous(), requires_grad=False)
    return linear.eval()


def split_forward(
    self: Any,
    hidden_states: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    position_embeddings: Any = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, Any]:
    """Attention over [batch, length, width] from three linears, by the model's own attention function."""
    shape = hidden_states.shape[:-1]
    q, k, v = (
        linear(hidden_states).view(*shape, -1, self.head_dim).transpose(1, 2)
        for linear in (self.q_proj, self.k_proj, self.v_proj)
    )
    cos, sin = position_embeddings
    q, k = apply_rotary_pos_emb(q, k, cos, sin)
    attend = ALL_ATTENTION_FUNCTIONS.get_interface(
        self.config._attn_implementation,
        eager_attention_forward,
    )
    out, weights = attend(self, q, k, v, attention_mask, dropout=0.0, scaling=self.scaling)
    return self.o_proj(out.reshape(*shape, -1).contiguous()), weights


def plain_forward(
    self: Any, hidden_states: torch.Tensor, cache: Any = None, attention_mask: torch.Tensor | None = None, **kwargs: Any
) -> tuple[torch.Tensor, Any]:
    """As `split_forward` where nothing is turned."""
    shape = hidden_states.shape[:-1]
    q, k, v = (
        linear(hidden_states).view(*shape, -1, self.head_dim).transpose(1, 2)
        for linear in (self.q_proj, self.k_proj, self.v_proj)
    )
    attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
    out, weights = attend(self, q, k, v, attention_mask, dropout=0.0, scaling=self.scaling)
    return self.o_proj(out.reshape(*shape, -1).contiguous()), weights


@dataclass(frozen=True)
class SplitGate(Patch):
    """Gives gated feed-forward modules with one fused projection a linear for each half."""

    pattern: ClassVar[str] = "P06"
    mathematics: ClassVar[str] = "down(act(a) * b) with the halves a, b of one product as two products"

    def match(self, model: nn.Module) -> list[Target]:
        """The modules with a fused gate. Raises PatchDoesNotApply if there is none."""
        targets = [Target(p, m) for p, m in model.named_modules() if gate_of(m) is not None]
        if not targets:
            raise PatchDoesNotApply("P06: no feed-forward module fuses its gate in a known layout")
        return targets

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Puts two linears in each place."""
        undo = Reversal()
        for target in self.match(model):
            gate = gate_of(target.module)
            assert gate is not None
            stock: Any = target.module._modules[gate.name]
            halves = {n: p.detach().chunk(2) for n, p in stock.named_parameters()}
            for name, half in (("gate_proj", gate.activated), ("up_proj", 1 - gate.activated)):
                undo.set_module(target.module, name, linear_of({n: h[half] for n, h in halves.items()}))
            undo.drop_item(target.module._modules, gate.name)
            undo.set_module(target.module, "down_proj", target.module._modules[gate.down])  # type: ignore[arg-type]
            undo.set_attribute(target.module, "activation_of_gate", gate.activation)
            give(undo, target.module, gated_forward)
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The feed-forward classes."""
        return types_of(self.match(model))


def gate_of(module: nn.Module) -> Gate | None:
    """The row of the table that the module has, or None."""
    for gate in GATES:
        linears = [module._modules.get(n) for n in (gate.name, gate.down)]
        if all(type(m) is nn.Linear for m in linears) and hasattr(module, gate.activation):
            return gate if linears[0].out_features == 2 * linears[1].in_features else None  # type: ignore[union-attr]
    return None


def gated_forward(self: Any, hidden_states: torch.Tensor) -> torch.Tensor:
    """down(act(gate x) * (up x)) over [batch, length, width]."""
    activation = getattr(self, self.activation_of_gate)
    return self.down_proj(activation(self.gate_proj(hidden_states)) * self.up_proj(hidden_states))
