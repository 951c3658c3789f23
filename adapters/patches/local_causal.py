"""P96: causal attention without a scale, some layers within a window (GPT-Neo), by masks from the host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import nn
from transformers import masking_utils

from ..errors import PatchDoesNotApply, PatchParameters
from ..rebinding import calls_by_name, give, rebind
from ..reversal import Reversal
from ..structure import find_blocks
from .base import Patch, PatchContext, Target, Undo, types_of
from .host_masks import HostMaker, additive

ATTEND, MAKER, KIND, LOCAL = "_attn", "create_causal_mask", "attention_type", "local"


@dataclass(frozen=True)
class LocalCausal(Patch):
    """softmax(q k^T + M) v with M = 0 where 0 <= i - j < w (everywhere behind, in layers that are not local).

    Stock keeps a table of booleans for every pair of positions in each layer and cuts it out; here one mask of the
    run's dtype for each kind of layer is made on the host, padding in it.
    """

    pattern: ClassVar[str] = "P96"
    mathematics: ClassVar[str] = "two masks one after the other forbid what either forbids; no scale, as in stock"
    conflicts: ClassVar[tuple[str, ...]] = ("P40", "P45")

    fill: str = "finfo_min_half"

    def match(self, model: nn.Module) -> list[Target]:
        """The attention modules with a table of allowed pairs. Raises PatchDoesNotApply if there is none."""
        if self.fill != "finfo_min_half":
            raise PatchParameters(f"P96: fill {self.fill!r} is not 'finfo_min_half'")
        found = [Target(p, m) for p, m in model.named_modules() if hasattr(m, ATTEND) and hasattr(m, KIND)]
        targets = [t for t in found if isinstance(t.module._buffers.get("bias"), torch.Tensor)]
        if not targets or not calls_by_name(model, MAKER):
            raise PatchDoesNotApply("P96: no attention module holds a table of the pairs that are allowed")
        return targets

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Gives attention modules the plain form and local blocks their own mask; tables stay where they are."""
        undo, config = Reversal(), model.config
        for target in self.match(model):
            give(undo, target.module, plain_attend, method=ATTEND)
        masks = KindsOfMasks(getattr(masking_utils, MAKER), context, int(config.window_size))  # type: ignore[union-attr, arg-type]
        rebind(undo, model, {MAKER: masks})
        for block in find_blocks(model):
            if any(getattr(m, KIND, None) == LOCAL for m in block.module.modules()):
                undo.hook(block.module.register_forward_pre_hook(masks.for_local, with_kwargs=True))
        undo.add(context.keep_on_host("attention_mask"))
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The attention and model classes and the maker of causal masks."""
        used = getattr(masking_utils, MAKER)
        return [*types_of(self.match(model)), type(model), used, masking_utils.eager_mask]


def plain_attend(
    self: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: torch.Tensor | None = None
) -> tuple[torch.Tensor, None]:
    """Attention of [batch, heads, length, size] by an additive mask, without a scale; weights are not given."""
    q, k, v = query.contiguous(), key.contiguous(), value.contiguous()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=attention_mask, scale=1.0), None


class KindsOfMasks:
    """Stands in for the maker of causal masks: gives the mask of global layers, keeps that of local ones."""

    def __init__(self, stock: Callable[..., Any], context: PatchContext, window: int) -> None:
        self._maker = HostMaker(stock, torch.device("cpu"), context.dtype)
        self._device, self._window = context.device, window
        self._local: torch.Tensor | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """[batch, 1, length, length] on the device."""
        mask = self._maker(*args, **kwargs)
        place = torch.arange(mask.shape[-1])
        far = (place[:, None] - place[None]) >= self._window
        self._local = additive(mask.masked_fill(far, torch.finfo(mask.dtype).min)).contiguous().to(self._device)
        return mask.to(self._device)

    def for_local(self, block: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The inputs of a local block: its own mask in place of the other."""
        return args, {**kwargs, "attention_mask": self._local}
