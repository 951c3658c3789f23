"""P20: attention heads padded with zeros to a size the device can hold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from ..errors import PatchDoesNotApply, PatchParameters
from ..reversal import Reversal
from ..structure import AttentionSite, find_attention, has_rotary
from .base import Patch, PatchContext, Target, Undo


@dataclass(frozen=True)
class PadHeads(Patch):
    """Gives each head of W_q, W_k, W_v zero rows at its end and W_o zero columns; the scale stays 1/sqrt(head_dim).

    Modules that divide by the square root of the padded size get W_q and b_q times sqrt(padded/original) instead.
    """

    pattern: ClassVar[str] = "P20"
    mathematics: ClassVar[str] = "zeros add nothing to QK^T nor to the output; the scale of the original head is kept"

    head_dim: int = 0
    padded_head_dim: int = 0

    def match(self, model: nn.Module) -> list[Target]:
        """Every attention module with heads of `head_dim`."""
        return [Target(s.path, s.module) for s in self.sites(model)]

    def sites(self, model: nn.Module) -> list[AttentionSite]:
        """The attention modules to pad. Raises PatchDoesNotApply with the reason if any cannot be padded."""
        if not 0 < self.head_dim < self.padded_head_dim:
            raise PatchParameters(f"P20: cannot pad heads of {self.head_dim!r} to {self.padded_head_dim!r}")
        if has_rotary(model):
            raise PatchDoesNotApply("P20: the model rotates queries and keys; halves would have to be padded (P21)")
        sites = [s for s in find_attention(model) if s.head_dim == self.head_dim]
        if not sites:
            raise PatchDoesNotApply(f"P20: no attention module with heads of {self.head_dim}")
        for site in sites:
            _check(site)
        return sites

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Replaces the projections' Parameters and the sizes that views use."""
        undo, made = Reversal(), dict[tuple[int, str], nn.Parameter]()
        for site in self.sites(model):
            self._pad_site(site, undo, made)
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The attention classes and the owners of the output projection."""
        sites = self.sites(model)
        return [type(s.module) for s in sites] + [type(s.owner) for s in sites]

    def _pad_site(self, site: AttentionSite, undo: Reversal, made: dict[tuple[int, str], nn.Parameter]) -> None:
        factor = math.sqrt(self.padded_head_dim / self.head_dim) if site.scale == "sqrt_head" else 1.0
        all_heads = site.heads * self.padded_head_dim
        for linear, gain in ((site.q, factor), (site.k, 1.0), (site.v, 1.0)):
            self._pad_rows(linear, gain, undo, made)
        self._pad_columns(site.o, undo, made)
        undo.set_attribute(site.module, site.head_attribute, self.padded_head_dim)
        if site.all_heads_attribute is not None:
            undo.set_attribute(site.module, site.all_heads_attribute, all_heads)

    def _pad_rows(
        self, linear: nn.Linear, gain: float, undo: Reversal, made: dict[tuple[int, str], nn.Parameter]
    ) -> None:
        for name, parameter in linear.named_parameters(recurse=False):
            key = (id(parameter), f"rows*{gain}")
            if key not in made:
                made[key] = _frozen(pad_rows(parameter, self.head_dim, self.padded_head_dim) * gain)
            undo.set_parameter(linear, name, made[key])
        undo.set_attribute(linear, "out_features", linear.out_features // self.head_dim * self.padded_head_dim)

    def _pad_columns(self, linear: nn.Linear, undo: Reversal, made: dict[tuple[int, str], nn.Parameter]) -> None:
        key = (id(linear.weight), "columns")
        if key not in made:
            made[key] = _frozen(pad_columns(linear.weight, self.head_dim, self.padded_head_dim))
        undo.set_parameter(linear, "weight", made[key])
        undo.set_attribute(linear, "in_features", linear.in_features // self.head_dim * self.padded_head_dim)


def pad_rows(parameter: torch.Tensor, head_dim: int, padded: int) -> torch.Tensor:
    """[H*head_dim, ...] → [H*padded, ...]: zero rows at the end of each head."""
    by_head = parameter.detach().unflatten(0, (-1, head_dim))
    zeros = by_head.new_zeros((by_head.shape[0], padded - head_dim, *by_head.shape[2:]))
    return torch.cat([by_head, zeros], dim=1).flatten(0, 1)


def pad_columns(weight: torch.Tensor, head_dim: int, padded: int) -> torch.Tensor:
    """[out, H*head_dim] → [out, H*padded]: zero columns at the end of each head."""
    by_head = weight.detach().unflatten(1, (-1, head_dim))
    return F.pad(by_head, (0, padded - head_dim)).flatten(1, 2)


def _frozen(value: torch.Tensor) -> nn.Parameter:
    return nn.Parameter(value.contiguous(), requires_grad=False)


def _check(site: AttentionSite) -> None:
    linears = (site.q, site.k, site.v, site.o)
    if any(type(linear) is not nn.Linear for linear in linears):
        raise PatchDoesNotApply(f"P20: {site.path}: a projection is not a plain linear")
    wanted = [(m.out_features if m is not site.o else m.in_features) % site.head_dim for m in linears]
    if any(wanted) or site.o.in_features != site.q.out_features:
        raise PatchDoesNotApply(f"P20: {site.path}: the projections are not whole heads of {site.head_dim}")
    if site.scale == "unknown":
        raise PatchDoesNotApply(f"P20: {site.path}: where the attention scale comes from is unknown")
    if any(hasattr(site.module, name) for name in ("q_norm", "k_norm")):
        raise PatchDoesNotApply(f"P20: {site.path}: queries and keys are normalised per head")
