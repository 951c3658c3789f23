"""P21: heads padded where queries and keys are turned, so that turned pairs stay pairs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from ..digests import source_of
from ..errors import PatchDoesNotApply, PatchParameters
from ..reversal import Reversal
from ..structure import AttentionSite, find_attention, has_rotary, head_size_of
from .base import Patch, PatchContext, Target, Undo, types_of
from .heads import pad_columns, pad_rows
from .rotary import rotary_of, turned_lanes
from .split import fused_of

NORMS = ("q_norm", "k_norm")
EPSILONS = ("variance_epsilon", "eps", "epsilon")


@dataclass(frozen=True)
class PadRotaryHeads(Patch):
    """Pads each half of a head of W_q and W_k, and the end of a head of W_v and of W_o's input, with zeros.

    Padded lanes have cos 1 and sin 0. Where stock turns only the first lanes of a head, all pads stand at its end. The
    scale stays that of the original head, and norms over a head keep its divisor: w*sqrt(D/D'), eps*D/D'.
    """

    pattern: ClassVar[str] = "P21"
    mathematics: ClassVar[str] = "zeros stay zeros when turned; a padded head's mean is D/D' of the mean over D"

    head_dim: int = 0
    padded_head_dim: int = 0

    def match(self, model: nn.Module) -> list[Target]:
        """Every attention module with heads of `head_dim`; a fused one has to be split (P27) before `apply`."""
        fused = [Target(p, m) for p, m in model.named_modules() if self._is_fused(m)]
        return fused or [Target(s.path, s.module) for s in self.sites(model)]

    def _is_fused(self, module: nn.Module) -> bool:
        return fused_of(module) is not None and head_size_of(module) == self.head_dim

    def sites(self, model: nn.Module) -> list[AttentionSite]:
        """The attention modules to pad. Raises PatchDoesNotApply with the reason if any cannot be padded."""
        if not 0 < self.head_dim < self.padded_head_dim or (self.padded_head_dim - self.head_dim) % 2:
            raise PatchParameters(f"P21: cannot pad heads of {self.head_dim!r} to {self.padded_head_dim!r}")
        if not has_rotary(model):
            raise PatchDoesNotApply("P21: the model turns no queries and keys; P20 pads its heads")
        sites = [s for s in find_attention(model) if s.head_dim == self.head_dim]
        if not sites:
            raise PatchDoesNotApply(f"P21: no attention module of known form has heads of {self.head_dim}")
        for site in sites:
            _check(site)
        return sites

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Replaces the projections' Parameters and the sizes that views use, and widens cos and sin."""
        if any(self._is_fused(m) for m in model.modules()):
            raise PatchDoesNotApply("P21: the projections are fused: P27 has to split them first")
        undo = Reversal()
        halves = turned_lanes(model, self.pattern) == self.head_dim
        for site in self.sites(model):
            self._pad_site(site, halves, undo)
        if halves:
            for target in rotary_of(model, self.pattern):
                wide = WideTables(target.module.forward, self.padded_head_dim // 2)
                undo.set_attribute(target.module, "forward", wide)
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The attention classes, the owners of the output projections, the rotary classes and the norms of heads."""
        targets = self.match(model)
        sites = [s for s in find_attention(model) if s.head_dim == self.head_dim]
        others = [*(s.owner for s in sites), *(n for s in sites for n in _norms(s))]
        return [*types_of(targets), *types_of(rotary_of(model, self.pattern)), *(type(m) for m in others)]

    def _pad_site(self, site: AttentionSite, halves: bool, undo: Reversal) -> None:
        old, new = self.head_dim, self.padded_head_dim
        factor = math.sqrt(new / old) if site.scale == "sqrt_head" else 1.0
        parts = 2 if halves else 1
        for linear, gain, count in ((site.q, factor, parts), (site.k, 1.0, parts), (site.v, 1.0, 1)):
            for name, parameter in list(linear.named_parameters(recurse=False)):
                padded = pad_rows(parameter, old // count, new // count) * gain
                undo.set_parameter(linear, name, nn.Parameter(padded, requires_grad=False))
            undo.set_attribute(linear, "out_features", linear.out_features // old * new)
        columns = nn.Parameter(pad_columns(site.o.weight, old, new), requires_grad=False)
        undo.set_parameter(site.o, "weight", columns)
        undo.set_attribute(site.o, "in_features", site.o.in_features // old * new)
        undo.set_attribute(site.module, site.head_attribute, new)
        if site.all_heads_attribute is not None:
            undo.set_attribute(site.module, site.all_heads_attribute, site.q.out_features)
        for norm in _norms(site):
            _pad_norm(norm, old, new, parts, undo)


def _pad_norm(norm: Any, old: int, new: int, parts: int, undo: Reversal) -> None:
    offset = 1.0 if adds_one(norm) else 0.0
    weight = (norm.weight.detach() + offset) * math.sqrt(old / new)
    padded = pad_rows(weight, old // parts, new // parts) - offset
    undo.set_parameter(norm, "weight", nn.Parameter(padded, requires_grad=False))
    name = epsilon_of(norm)
    undo.set_attribute(norm, name, getattr(norm, name) * old / new)


def adds_one(norm: nn.Module) -> bool:
    """True if the norm multiplies by 1 + weight."""
    kind: Any = type(norm)
    return "1.0 + self.weight" in source_of(kind)


def epsilon_of(norm: nn.Module) -> str:
    """The name of the norm's epsilon. Raises StopIteration if it has none."""
    return next(n for n in EPSILONS if isinstance(getattr(norm, n, None), float))


def _norms(site: AttentionSite) -> list[Any]:
    return [n for n in (getattr(site.module, name, None) for name in NORMS) if isinstance(n, nn.Module)]


def _check(site: AttentionSite) -> None:
    if any(type(linear) is not nn.Linear for linear in (site.q, site.k, site.v, site.o)):
        raise PatchDoesNotApply(f"P21: {site.path}: a projection is not a plain linear")
    if site.o.in_features != site.q.out_features:
        raise PatchDoesNotApply(f"P21: {site.path}: the output projection reads something else than the heads")
    if site.scale == "unknown":
        raise PatchDoesNotApply(f"P21: {site.path}: where the attention scale comes from is unknown")
    norms = _norms(site)
    if norms and site.scale == "sqrt_head":
        raise PatchDoesNotApply(f"P21: {site.path}: a norm over heads undoes the scale that the weights would carry")
    if any("RMSNorm" not in type(n).__name__ or tuple(n.weight.shape) != (site.head_dim,) for n in norms):
        raise PatchDoesNotApply(f"P21: {site.path}: queries and keys have a norm that is not an RMS norm of one head")
    if any(hasattr(site.module, n) for n in ("q_layernorm", "k_layernorm", "layer_norm_q")):
        raise PatchDoesNotApply(f"P21: {site.path}: queries and keys have a layer norm")


@dataclass(frozen=True)
class WideTables:
    """Stands in for a rotary module's forward: its cos and sin with each half widened to `half` lanes, 1 and 0."""

    stock: Callable[..., tuple[torch.Tensor, torch.Tensor]]
    half: int

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """cos and sin [batch, length, 2 * half]."""
        cos, sin = self.stock(*args, **kwargs)
        return self._wide(cos, 1.0), self._wide(sin, 0.0)

    def _wide(self, table: torch.Tensor, fill: float) -> torch.Tensor:
        by_half = table.unflatten(-1, (2, -1))
        return F.pad(by_half, (0, self.half - by_half.shape[-1]), value=fill).flatten(-2)
