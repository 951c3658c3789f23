"""P08: rows masked by multiplication (Flaubert, XLM) with masks from the host, attention by an additive mask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from ..errors import PatchDoesNotApply
from ..rebinding import calls_by_name, give, global_of, rebind
from ..reversal import Reversal
from .base import Patch, PatchContext, Target, Undo, types_of

MAKER, MATRICES, POSITIONS = "get_masks", ("q_lin", "k_lin", "v_lin", "out_lin"), "position_embeddings"


@dataclass(frozen=True)
class MultipliedRows(Patch):
    """x * m with m of 0 and 1 made on the host, and softmax(q k^T/sqrt(D) + M) v with M = finfo.min/2 at padding.

    The table of positions, which stands beside the embeddings, stays on the host with them.
    """

    pattern: ClassVar[str] = "P08"
    mathematics: ClassVar[str] = "masked_fill by the least value is the sum with it, whose exponential is 0"
    needs: ClassVar[tuple[str, ...]] = ("P30", "P32")
    conflicts: ClassVar[tuple[str, ...]] = ("P40", "P45")

    def match(self, model: nn.Module) -> list[Target]:
        """The model and its attention modules. Raises PatchDoesNotApply with the reason."""
        attention = [Target(p, m) for p, m in model.named_modules() if all(n in m._modules for n in MATRICES)]
        if not attention or not calls_by_name(model, MAKER) or POSITIONS not in model._modules:
            raise PatchDoesNotApply("P08: the model does not mask its rows by what get_masks gives")
        if getattr(model, "causal", False):
            raise PatchDoesNotApply("P08: the model looks back only, which this form does not cover")
        return [Target("", model), *attention]

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Rebinds the maker of masks, gives each attention instance the plain form, keeps positions on the host."""
        undo = Reversal()
        for target in self.match(model)[1:]:
            give(undo, target.module, plain_attention)
        rebind(undo, model, {MAKER: RowMasks(context)})
        table: Any = model._modules[POSITIONS]
        undo.add(context.stay_on_host(table))
        undo.hook(table.register_forward_hook(lambda m, args, out: out.to(context.dtype).to(context.device)))
        undo.add(context.keep_on_host("attention_mask"))
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The classes of the model and its attention, and the maker of masks."""
        return [*types_of(self.match(model)), global_of(model, MAKER)]


@dataclass(frozen=True)
class RowMasks:
    """Stands in for the maker of masks: rows [batch, length] of 1 and 0, additive [batch, 1, length, length]."""

    context: PatchContext

    def __call__(
        self, slen: int, lengths: torch.Tensor, causal: bool, padding_mask: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Both of the run's dtype, on the device; padding as the caller's mask has it, else by the lengths."""
        host = torch.arange(slen, device="cpu")[None] < lengths.cpu()[:, None]
        real = host if padding_mask is None else padding_mask.cpu().bool()
        rows = real.to(self.context.dtype)
        zeros = torch.zeros((len(real), 1, slen, slen), dtype=self.context.dtype, device="cpu")
        pairs = zeros.masked_fill(~real[:, None, None, :], torch.finfo(self.context.dtype).min / 2)
        return rows.contiguous().to(self.context.device), pairs.contiguous().to(self.context.device)


def plain_attention(self: Any, input: torch.Tensor, mask: torch.Tensor, **kwargs: Any) -> tuple[torch.Tensor]:
    """Attention over [batch, length, width] by an additive mask."""
    shape = (*input.shape[:-1], self.n_heads, self.head_dim)
    q, k, v = (m(input).view(shape).transpose(1, 2).contiguous() for m in (self.q_lin, self.k_lin, self.v_lin))
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return (self.out_lin(out.transpose(1, 2).reshape(input.shape).contiguous()),)
