"""P51: convolutions over tokens as products with shift matrices, which the host makes once per call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import nn
from transformers.activations import ACT2FN

from ..errors import PatchDoesNotApply
from ..rebinding import calls_by_name, give, rebind
from ..reversal import Reversal
from .base import PHASE_MASK, HostCall, Patch, PatchContext, Target, Undo, types_of
from .split import linear_of

SHIFTS = "shifts_of_tokens"
HOSTS = ("cpu", "meta")
ROW_MASKS = "create_recurrent_attention_mask"


@dataclass(frozen=True)
class MatmulConvolutions(Patch):
    """y[t] = sum over k of W_k x[t + k - reach] by shift matrices S_k, of which S_k x is x moved by k - reach tokens.

    S_k leaves out what was added to the length, so that a text's last token meets the zeros that stock meets there.
    Three forms are known: a layer after the first block (DeBERTa v2), a gated short convolution (LFM2), and dynamic
    kernels beside attention (ConvBERT), whose softmax over a kernel's places is written out, one linear a place.
    """

    pattern: ClassVar[str] = "P51"
    mathematics: ClassVar[str] = "a convolution is a sum over its places of the input moved by one place, times weights"

    def match(self, model: nn.Module) -> list[Target]:
        """The modules of a known form. Raises PatchDoesNotApply if there is none, or one is of another size."""
        targets = [Target(p, m) for p, m in model.named_modules() if form_of(m) is not None]
        if not targets:
            raise PatchDoesNotApply("P51: the model has no convolution over tokens of a known form")
        for target in targets:
            form_of(target.module).check(target)  # type: ignore[union-attr]
        return targets

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Gives each module its form with weights by place; the shift matrices are made before every call."""
        undo, shifts = Reversal(), Shifts(context)
        for target in self.match(model):
            form = form_of(target.module)
            assert form is not None
            undo.set_attribute(target.module, SHIFTS, shifts)
            shifts.needs(form.prepare(target.module, undo))
            give(undo, target.module, form.forward)
        if calls_by_name(model, ROW_MASKS):
            rebind(undo, model, {ROW_MASKS: RowMasks(context)})
            undo.add(context.keep_on_host("attention_mask"))
        undo.add(context.add_stage(PHASE_MASK, shifts.stage))
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The modules' classes."""
        return types_of(self.match(model))


class Shifts:
    """The shift matrices [length, length] of the call that runs, on the device, by how far they move."""

    def __init__(self, context: PatchContext) -> None:
        self._context = context
        self._moves: set[int] = set()
        self.by: dict[int, torch.Tensor] = {}

    def needs(self, moves: range) -> None:
        """These moves will be asked for: x[t + move]. None is needed to stay in place."""
        self._moves |= set(moves) - {0}

    def stage(self, inputs: dict[str, Any], call: HostCall) -> dict[str, Any]:
        """Makes the matrices of this call's padded length; the inputs stay as they are."""
        tokens = inputs["input_ids"] if inputs.get("input_ids") is not None else inputs["inputs_embeds"]
        length = tokens.shape[1]
        first = call.added if call.left else 0
        real = torch.arange(length)
        kept = (real >= first) & (real < first + (call.length or length))
        for move in sorted(self._moves):
            matrix = torch.diag(kept[max(move, 0) : length + min(move, 0)].double(), move)
            self.by[move] = matrix.to(self._context.dtype).contiguous().to(self._context.device)
        return inputs

    def moved(self, x: torch.Tensor, move: int) -> torch.Tensor:
        """x [batch, length, width] → its rows t + move, zeros beyond the text."""
        return x if move == 0 else torch.matmul(self.by[move], x)


@dataclass(frozen=True)
class RowMasks:
    """Stands in for the maker of masks for layers without attention: [batch, length, 1] of the run's dtype."""

    context: PatchContext

    def __call__(self, *, inputs_embeds: torch.Tensor, attention_mask: Any = None, **kwargs: Any) -> torch.Tensor:
        """1 for tokens, 0 for padding."""
        if attention_mask is None:
            attention_mask = torch.ones(inputs_embeds.shape[:2], dtype=torch.int64, device="cpu")
        return attention_mask.cpu().to(self.context.dtype)[..., None].contiguous().to(self.context.device)


@dataclass(frozen=True)
class Form:
    """How one sort of module is known, checked, given its weights by place (the moves it needs), and computed."""

    parts: dict[str, type[nn.Module]]
    check: Callable[[Target], None]
    prepare: Callable[[Any, Reversal], range]
    forward: Callable[..., Any]


def form_of(module: nn.Module) -> Form | None:
    """The form whose parts are the module's, or None."""
    return next(
        (form for form in FORMS if all(isinstance(module._modules.get(n), k) for n, k in form.parts.items())), None
    )


def _moves(conv: Any) -> range:
    """By how far each place of a kernel moves its input."""
    return range(-conv.padding[0], conv.kernel_size[0] - conv.padding[0])


def _plain(target: Target, conv: Any, *, depthwise: bool) -> None:
    """Raises PatchDoesNotApply unless the convolution is one of step 1 over single places, as the form has it."""
    groups = conv.in_channels if depthwise else 1
    if type(conv) is not nn.Conv1d or (conv.stride, conv.dilation, conv.groups) != ((1,), (1,), groups):
        raise PatchDoesNotApply(f"P51: {target.path}: the convolution has steps, holes or groups of another form")


def _check_after_block(target: Target) -> None:
    conv: Any = target.module._modules["conv"]
    _plain(target, conv, depthwise=False)
    if 2 * conv.padding[0] + 1 != conv.kernel_size[0]:
        raise PatchDoesNotApply(f"P51: {target.path}: the kernel is not odd and centred")


def _prepare_after_block(module: Any, undo: Reversal) -> range:
    conv = module.conv
    undo.set_module(module, "places", _linears(conv.weight.detach().unbind(2), conv.bias))
    undo.drop_item(module._modules, "conv")
    undo.set_attribute(module, "activation_of_places", ACT2FN[module.conv_act])
    return _moves(conv)


def after_block(
    self: Any, hidden_states: torch.Tensor, residual_states: torch.Tensor, input_mask: torch.Tensor
) -> torch.Tensor:
    """LayerNorm(residual + act(conv(hidden) at tokens)) at tokens, 0 at padding; [batch, length, width].

    It stands between blocks, which alone are compiled: on a device it is compiled by itself, since eager code there has
    no activations.
    """
    real = input_mask.reshape(input_mask.shape[0], -1, 1).cpu().to(hidden_states.dtype).to(hidden_states.device)
    run = between_blocks if hidden_states.device.type in HOSTS else compiled_between_blocks()
    return run(self, hidden_states, residual_states, real)


def between_blocks(self: Any, hidden: torch.Tensor, residual: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """The same with the mask as factors [batch, length, 1] beside the hidden states."""
    reach = len(self.places) // 2
    out = self.places[reach](hidden)
    for place, linear in enumerate(self.places):
        if place != reach:
            out = out + linear(self.shifts_of_tokens.moved(hidden, place - reach))
    return self.LayerNorm(residual + self.activation_of_places(out * real)) * real


@cache
def compiled_between_blocks() -> Callable[..., torch.Tensor]:
    """The layer between blocks, compiled once for all models."""
    return torch.compile(between_blocks, fullgraph=True, dynamic=False)


def _check_gated(target: Target) -> None:
    conv: Any = target.module._modules["conv"]
    _plain(target, conv, depthwise=True)
    if conv.padding[0] != conv.kernel_size[0] - 1:
        raise PatchDoesNotApply(f"P51: {target.path}: the kernel does not end at the token itself")


def _prepare_gated(module: Any, undo: Reversal) -> range:
    conv = module.conv
    bias = [None] * 3 if module.in_proj.bias is None else module.in_proj.bias.detach().chunk(3)
    parts = zip(module.in_proj.weight.detach().chunk(3), bias, strict=True)
    for name, (weight, own) in zip(("gate_in", "gate_out", "value"), parts, strict=True):
        undo.set_module(module, name, _linear(weight, own))
    undo.drop_item(module._modules, "in_proj")
    undo.set_module(module, "places", _rows(conv.weight.detach()[:, 0].unbind(1), conv.bias))
    undo.drop_item(module._modules, "conv")
    return range(1 - conv.kernel_size[0], 1)


def gated(
    self: Any, hidden_states: torch.Tensor, cache: Any = None, attention_mask: torch.Tensor | None = None, **kwargs: Any
) -> torch.Tensor:
    """out_proj(C * conv(B * x)) with B, C, x of the tokens, 0 at padding; causal, [batch, length, width]."""
    if attention_mask is not None:
        hidden_states = hidden_states * attention_mask
    gained = self.gate_in(hidden_states) * self.value(hidden_states)
    return self.out_proj(self.gate_out(hidden_states) * self.places(gained, self.shifts_of_tokens, last=True))


def _check_dynamic(target: Target) -> None:
    module: Any = target.module
    _plain(target, module.key_conv_attn_layer.depthwise, depthwise=True)
    if module.conv_kernel_size % 2 == 0:
        raise PatchDoesNotApply(f"P51: {target.path}: the kernel is not odd and centred")


def _prepare_dynamic(module: Any, undo: Reversal) -> range:
    """The kernel's linear is taken apart by place, each row once for every lane of its head."""
    separable, kernel = module.key_conv_attn_layer, module.conv_kernel_layer
    depthwise, pointwise = separable.depthwise, separable.pointwise
    undo.set_module(module, "span_places", _rows(depthwise.weight.detach()[:, 0].unbind(1), None))
    undo.set_module(module, "span_out", _linear(pointwise.weight.detach()[:, :, 0], separable.bias.detach()[:, 0]))
    by_head = kernel.weight.detach().unflatten(0, (module.num_attention_heads, -1))
    bias = kernel.bias.detach().unflatten(0, (module.num_attention_heads, -1))
    lanes = module.attention_head_size
    places = [
        _linear(by_head[:, k].repeat_interleave(lanes, 0), bias[:, k].repeat_interleave(lanes, 0))
        for k in range(module.conv_kernel_size)
    ]
    undo.set_module(module, "kernel_places", nn.ModuleList(places))
    for name in ("key_conv_attn_layer", "conv_kernel_layer"):
        undo.drop_item(module._modules, name)
    return _moves(depthwise)


def dynamic(
    self: Any, hidden_states: torch.Tensor, attention_mask: torch.Tensor | None = None, *args: Any, **kwargs: Any
) -> tuple[torch.Tensor, None]:
    """Attention beside a convolution whose kernel each token makes itself; [batch, length, 2 * heads * size]."""
    shifts, shape = self.shifts_of_tokens, (*hidden_states.shape[:-1], self.num_attention_heads, -1)
    query = self.query(hidden_states)
    q, k, v = (
        x.view(shape).transpose(1, 2).contiguous() for x in (query, self.key(hidden_states), self.value(hidden_states))
    )
    attended = F.scaled_dot_product_attention(q, k, v, attn_mask=attention_mask)
    span = self.span_out(self.span_places(hidden_states, shifts)) * query
    scores = [linear(span) for linear in self.kernel_places]
    largest = scores[0]
    for score in scores[1:]:
        largest = torch.maximum(largest, score)
    weights = [torch.exp(score - largest) for score in scores]
    values, reach = self.conv_out_layer(hidden_states), len(scores) // 2
    total, out = weights[reach], weights[reach] * values
    for place, weight in enumerate(weights):
        if place != reach:
            total, out = total + weight, out + weight * shifts.moved(values, place - reach)
    mixed = torch.cat([attended.transpose(1, 2).reshape(query.shape), out / total], dim=-1)
    return mixed, None


class PlaceRows(nn.Module):
    """A convolution of each lane for itself: a row of weights a place, and a bias."""

    def __init__(self, rows: list[torch.Tensor], bias: torch.Tensor | None) -> None:
        super().__init__()
        self.rows = nn.ParameterList([_frozen(row) for row in rows])
        self.bias = None if bias is None else _frozen(bias)

    def forward(self, x: torch.Tensor, shifts: Shifts, last: bool = False) -> torch.Tensor:
        """[batch, length, width]; the last place, or the middle one, reads the token itself."""
        here = len(self.rows) - 1 if last else len(self.rows) // 2
        out = x * self.rows[here]
        for place, row in enumerate(self.rows):
            if place != here:
                out = out + shifts.moved(x, place - here) * row
        return out if self.bias is None else out + self.bias


def _rows(rows: Any, bias: Any) -> PlaceRows:
    return PlaceRows(list(rows), None if bias is None else bias.detach())


def _linears(weights: Any, bias: Any) -> nn.ModuleList:
    """A linear a place; the bias goes to the middle one, which always runs."""
    own = [bias.detach() if bias is not None and k == len(weights) // 2 else None for k in range(len(weights))]
    return nn.ModuleList([_linear(w, b) for w, b in zip(weights, own, strict=True)])


def _linear(weight: torch.Tensor, bias: torch.Tensor | None) -> nn.Linear:
    return linear_of({"weight": weight} if bias is None else {"weight": weight, "bias": bias})


def _frozen(value: torch.Tensor) -> nn.Parameter:
    return nn.Parameter(value.detach().contiguous(), requires_grad=False)


FORMS = (
    Form({"conv": nn.Conv1d, "LayerNorm": nn.Module}, _check_after_block, _prepare_after_block, after_block),
    Form({"conv": nn.Conv1d, "in_proj": nn.Linear, "out_proj": nn.Linear}, _check_gated, _prepare_gated, gated),
    Form(
        {"key_conv_attn_layer": nn.Module, "conv_kernel_layer": nn.Linear, "conv_out_layer": nn.Linear},
        _check_dynamic,
        _prepare_dynamic,
        dynamic,
    ),
)
