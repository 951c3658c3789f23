"""P45: every mask that a model makes, windows included, made on the host as an additive float mask."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import nn
from transformers import masking_utils

from ..errors import PatchDoesNotApply, PatchParameters
from ..rebinding import named_globals, rebind
from ..reversal import Reversal
from .base import Patch, PatchContext, Target, Undo

MAKERS = (
    "create_causal_mask",
    "create_sliding_window_causal_mask",
    "create_bidirectional_mask",
    "create_bidirectional_sliding_window_mask",
)
SKIPS = ("allow_is_causal_skip", "allow_is_bidirectional_skip")
FILLS = ("finfo_min_half",)


class Maker(NamedTuple):
    """A module's method that makes masks, and the names of the functions it makes them with."""

    path: str
    module: nn.Module
    method: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class HostMasks(Patch):
    """Lets the model make each of its masks by its own rule (causal, both ways, windowed), but on the host.

    The result is [batch, 1, length, length] of the run's dtype, 0 where allowed and finfo.min/2 elsewhere, and always
    there. A row that may see nothing sees itself, so that it stays finite; such rows belong to padding.
    """

    pattern: ClassVar[str] = "P45"
    mathematics: ClassVar[str] = "the stock rule of allowed pairs; exp(S + fill) = 0 in the dtype where it forbids"

    conflicts: ClassVar[tuple[str, ...]] = ("P40",)

    fill: str = "finfo_min_half"

    def match(self, model: nn.Module) -> list[Target]:
        """The modules that make masks. Raises PatchDoesNotApply if none does by the functions of transformers."""
        if self.fill not in FILLS:
            raise PatchParameters(f"P45: fill {self.fill!r} is not one of {FILLS}")
        targets = [Target(m.path, m.module) for m in makers_of(model)]
        if not targets:
            raise PatchDoesNotApply(f"P45: {type(model).__name__} makes no mask by the functions of transformers")
        return targets

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Rebinds the methods that make masks; the caller's two-dimensional mask stays on the host."""
        undo = Reversal()
        for maker in makers_of(model):
            places = {n: HostMaker(getattr(masking_utils, n), context.device, context.dtype) for n in maker.names}
            rebind(undo, maker.module, places, maker.method)
        undo.add(context.keep_on_host("attention_mask"))
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The classes that make masks, the functions they use, and what these turn a rule into."""
        used = {getattr(masking_utils, n) for m in makers_of(model) for n in m.names}
        return [*{type(m.module) for m in makers_of(model)}, *used, masking_utils.eager_mask, masking_utils.sdpa_mask]


def makers_of(model: nn.Module) -> list[Maker]:
    """Every method of a module of the model that names a mask function of transformers."""
    return [m for path, module in model.named_modules() for m in _makers(path, module)]


def _makers(path: str, module: nn.Module) -> Iterator[Maker]:
    kind: Any = type(module)
    for method, names in named_globals(kind).items():
        used = tuple(n for n in MAKERS if n in names)
        if used:
            yield Maker(path, module, method, used)


@dataclass(frozen=True)
class HostMaker:
    """Stands in for one mask function: the same rule on host tensors, as an additive mask on the device."""

    stock: Callable[..., Any]
    device: torch.device
    dtype: torch.dtype

    def __call__(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """[batch, 1, length, length] of `dtype` on `device`."""
        known = inspect.signature(self.stock).parameters
        given = {**dict(zip(known, args, strict=False)), **kwargs}
        given["config"] = _eager(given["config"])
        given["attention_mask"] = _two_dimensional(given)
        given["inputs_embeds"] = _stand_in(given["inputs_embeds"], self.dtype)
        given.pop("position_ids", None)
        mask = self.stock(**given, **{name: False for name in SKIPS if name in known})
        return additive(mask).to(self.dtype).contiguous().to(self.device)


def additive(mask: torch.Tensor) -> torch.Tensor:
    """A mask of 0 and finfo.min with finfo.min / 2 instead, and with rows that may see nothing seeing themselves.

    Half of the least value, so that two of them and a score do not overflow (P40).
    """
    least = torch.finfo(mask.dtype).min / 2
    eye = torch.eye(mask.shape[-1], dtype=torch.bool, device=mask.device)
    return torch.where(eye, torch.zeros((), dtype=mask.dtype), mask.clamp(min=least))


def _eager(config: Any) -> Any:
    """A copy of the config that asks for float masks."""
    changed = copy.copy(config)
    changed._attn_implementation_internal = "eager"
    return changed


def _two_dimensional(given: dict[str, Any]) -> torch.Tensor:
    mask = given.get("attention_mask")
    if mask is None:
        return torch.ones(given["inputs_embeds"].shape[:2], dtype=torch.int64, device="cpu")
    if mask.ndim != 2:
        raise PatchDoesNotApply(f"P45: attention_mask has {mask.ndim} dimensions; give [batch, length]")
    return mask.cpu()


def _stand_in(embeds: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Shape, dtype and place for a mask function, which reads no value."""
    return torch.empty((), dtype=dtype, device="cpu").expand(embeds.shape)
