"""P52: attention over chunks of a window as attention over all pairs with a band mask, made on the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import nn
from transformers import masking_utils

from ..errors import PatchDoesNotApply, PatchParameters
from ..rebinding import calls_by_name, give, rebind
from ..reversal import Reversal
from .base import Patch, PatchContext, Target, Undo, types_of
from .host_masks import additive

REACH, PADDER, MAKER = "one_sided_attn_window_size", "_pad_to_window_size", "create_bidirectional_mask"


@dataclass(frozen=True)
class FullWindows(Patch):
    """Gives windowed attention (Longformer's) the plain form: softmax(q k^T/sqrt(D) + M) v.

    M is 0 where |i - j| is at most the layer's reach and the key is no padding, and finfo.min/2 elsewhere; it is made
    on the host, once per reach. Lengths need not be whole windows then. Tokens with global attention have projections
    of their own in stock: a call that names some is refused.
    """

    pattern: ClassVar[str] = "P52"
    mathematics: ClassVar[str] = "softmax over the keys of the window is softmax over all keys with -inf outside of it"
    needs: ClassVar[tuple[str, ...]] = ("P30",)
    conflicts: ClassVar[tuple[str, ...]] = ("P40", "P45")

    placement: str = "host"

    def match(self, model: nn.Module) -> list[Target]:
        """The windowed attention modules. Raises PatchDoesNotApply if there is none."""
        if self.placement != "host":
            raise PatchParameters(f"P52: placement {self.placement!r} is not 'host'")
        targets = [Target(p, m) for p, m in model.named_modules() if isinstance(getattr(m, REACH, None), int)]
        if not targets or not hasattr(type(model), PADDER) or not calls_by_name(model, MAKER):
            raise PatchDoesNotApply("P52: no attention over chunks of a window in a model that pads to whole windows")
        encoder_over(model, targets)
        return targets

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """The attention modules get the plain form, the encoder band masks, the model's own mask stays on the host."""
        undo, targets = Reversal(), self.match(model)
        for target in targets:
            give(undo, target.module, plain_attention)
        encoder = encoder_over(model, targets)
        undo.set_attribute(encoder, "forward", BandEncoder(encoder, context))
        rebind(undo, model, {MAKER: row_mask})
        undo.set_attribute(model, PADDER, unpadded)
        undo.add(context.keep_on_host("attention_mask"))
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The attention, encoder and model classes and the maker of masks."""
        targets = self.match(model)
        kinds = {type(encoder_over(model, targets)), type(model)}
        return [*types_of(targets), *sorted(kinds, key=lambda k: k.__name__), getattr(masking_utils, MAKER)]


def encoder_over(model: nn.Module, targets: list[Target]) -> nn.Module:
    """The module whose list `layer` holds all targets. Raises PatchDoesNotApply without one."""
    wanted = {id(t.module) for t in targets}
    for module in model.modules():
        layers = module._modules.get("layer")
        if isinstance(layers, nn.ModuleList) and wanted <= {id(m) for m in layers.modules()}:
            return module
    raise PatchDoesNotApply("P52: no encoder with a list of layers holds the windowed attention")


def plain_attention(
    self: Any, hidden_states: torch.Tensor, attention_mask: torch.Tensor | None = None, **kwargs: Any
) -> tuple[torch.Tensor]:
    """Attention over [batch, length, width] with an additive mask [batch, 1, length, length]."""
    shape = hidden_states.shape[:-1]
    q, k, v = (
        linear(hidden_states).view(*shape, self.num_heads, self.head_dim).transpose(1, 2).contiguous()
        for linear in (self.query, self.key, self.value)
    )
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=attention_mask)
    return (out.transpose(1, 2).reshape(*shape, -1).contiguous(),)


def unpadded(
    input_ids: Any, attention_mask: Any, token_type_ids: Any, position_ids: Any, inputs_embeds: Any, pad_token_id: int
) -> tuple[int, Any, Any, Any, Any, Any]:
    """Stands in for the padding to whole windows: nothing is added."""
    return 0, input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds


def row_mask(*, inputs_embeds: torch.Tensor, attention_mask: torch.Tensor, **kwargs: Any) -> torch.Tensor:
    """[batch, 1, 1, length] on the host: 0 for tokens, finfo.min for padding; stock takes its rows as the mask."""
    kind = inputs_embeds.dtype
    zeros = torch.zeros(attention_mask.shape, dtype=kind)
    return zeros.masked_fill(attention_mask == 0, torch.finfo(kind).min)[:, None, None]


def band(keys: torch.Tensor, reach: int) -> torch.Tensor:
    """Mask of keys [batch, length] (0 or less) → additive mask [batch, 1, length, length] of the pairs in reach."""
    place = torch.arange(keys.shape[1])
    far = (place[:, None] - place[None]).abs() > reach
    least = torch.finfo(keys.dtype).min
    return torch.where(far[None, None], least, keys[:, None, None, :])


class BandEncoder:
    """Stands in for the encoder's forward: band masks from the host, then the layers one after the other."""

    def __init__(self, encoder: nn.Module, context: PatchContext) -> None:
        self._layers: Any = encoder._modules["layer"]
        self._context = context
        self._output: Any = type(encoder).forward.__globals__["LongformerBaseModelOutput"]

    def __call__(self, hidden_states: torch.Tensor, attention_mask: torch.Tensor, **kwargs: Any) -> Any:
        """The encoder's output for hidden states [batch, length, width] and the host's mask [batch, length]."""
        if bool((attention_mask > 0).any()):
            raise PatchDoesNotApply("P52: tokens with global attention; leave global_attention_mask out")
        masks: dict[int, torch.Tensor] = {}
        for layer in self._layers:
            reach = next(getattr(m, REACH) for m in layer.modules() if hasattr(m, REACH))
            if reach not in masks:
                wide = band(attention_mask.to(self._context.dtype), reach)
                masks[reach] = additive(wide).contiguous().to(self._context.device)
            hidden_states = layer(hidden_states, attention_mask=masks[reach])[0]
        return self._output(last_hidden_state=hidden_states)
