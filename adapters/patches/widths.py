"""P23: hidden sizes padded with zeros to whole sticks, the norms counting only the lanes that are real."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from ..errors import PatchDoesNotApply, PatchParameters
from ..placement import map_tensors
from ..rebinding import give
from ..reversal import Reversal
from ..structure import embeddings_of, encoder_of, find_attention, find_blocks, path_of
from .base import Patch, PatchContext, Target, Undo, types_of
from .norms import is_rms_norm
from .padding import FEED_FORWARDS
from .rotary_heads import adds_one, epsilon_of


class Residual(NamedTuple):
    """The linears of the blocks that read the stream of residuals, those that write into it, and its norms."""

    readers: list[nn.Linear]
    writers: list[nn.Linear]
    norms: list[Target]


@dataclass(frozen=True)
class PadWidth(Patch):
    """The stream of residuals gets zero lanes: `size` becomes `padded` in the blocks; outside it stays as it is.

    A norm takes mean and variance over the real lanes: m = sum/size, d = (x - m) * keep, v = sum(d*d)/size. Without
    `keep` the new lanes would hold -m. Embeddings come padded from the host (P30), heads read what is cropped there.
    """

    pattern: ClassVar[str] = "P23"
    mathematics: ClassVar[str] = "zero lanes add nothing to products; norms divide by the real size and mask the rest"
    needs: ClassVar[tuple[str, ...]] = ("P30",)
    conflicts: ClassVar[tuple[str, ...]] = ("P10", "P11")

    size: int = 0
    padded: int = 0

    def match(self, model: nn.Module) -> list[Target]:
        """The encoder and the norms of its blocks. Raises PatchDoesNotApply with the reason."""
        if not 0 < self.size < self.padded:
            raise PatchParameters(f"P23: cannot pad {self.size!r} to {self.padded!r}")
        encoder = encoder_of(model, find_blocks(model))
        if encoder is None:
            raise PatchDoesNotApply("P23: the blocks stand in no encoder that could be given padded vectors")
        return [Target(path_of(model, encoder), encoder), *self._parts(model).norms]

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Replaces the Parameters and the norms' forward, pads behind the embeddings, crops behind the encoder."""
        undo, parts = Reversal(), self._parts(model)
        encoder = self.match(model)[0].module
        for linear in parts.readers:
            self._pad(linear, "weight", (0, self._more), undo)
            undo.set_attribute(linear, "in_features", self.padded)
        for linear in parts.writers:
            for name in linear._parameters:
                self._pad(linear, name, (0, 0, 0, self._more) if name == "weight" else (0, self._more), undo)
            undo.set_attribute(linear, "out_features", self.padded)
        for target in parts.norms:
            self._norm(target.module, undo)
        undo.hook(embeddings_of(model).register_forward_hook(self._widened))
        undo.hook(encoder.register_forward_hook(self._narrowed))
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The classes of the encoder and the norms, and of the embeddings and blocks around them."""
        blocks = {type(b.module) for b in find_blocks(model)}
        return [*types_of(self.match(model)), type(embeddings_of(model)), *blocks]

    @property
    def _more(self) -> int:
        return self.padded - self.size

    def _parts(self, model: nn.Module) -> Residual:
        """What the blocks hold. Raises PatchDoesNotApply if a part of that size is of no known use."""
        sites, blocks = find_attention(model), [b.module for b in find_blocks(model)]
        readers = [linear for site in sites for linear in (site.q, site.k, site.v)]
        writers = [site.o for site in sites]
        for block in blocks:
            for ups, down in _feed_forwards(block):
                readers += ups
                writers.append(down)
        norms = [
            Target(p, m) for p, m in model.named_modules() if _is_norm(m) and any(m in b.modules() for b in blocks)
        ]
        known = {id(m) for m in (*readers, *writers, *(t.module for t in norms))}
        other = [p for b in blocks for p, m in b.named_modules() if id(m) not in known and list(m.parameters(False))]
        if not norms or other:
            raise PatchDoesNotApply(f"P23: {other[0] if other else 'the blocks'}: of no form whose use is known")
        sizes = {m.in_features for m in readers} | {m.out_features for m in writers}
        if sizes | {int(t.module._parameters["weight"].shape[0]) for t in norms} != {self.size}:  # type: ignore[union-attr]
            raise PatchDoesNotApply(f"P23: the stream of residuals is not {self.size} wide everywhere")
        return Residual(readers, writers, norms)

    def _norm(self, norm: Any, undo: Reversal) -> None:
        for name in [n for n, value in norm._parameters.items() if value is not None]:
            self._pad(norm, name, (0, self._more), undo)
        keep = torch.ones(self.padded)
        keep[self.size :] = 0
        undo.set_buffer(norm, "real_lanes", keep)
        undo.set_attribute(norm, "share_of_lane", 1.0 / self.size)
        undo.set_attribute(norm, "own_epsilon", norm.eps if isinstance(norm, nn.LayerNorm) else _epsilon(norm))
        plain = padded_layer_norm if isinstance(norm, nn.LayerNorm) else padded_rms_norm
        give(undo, norm, padded_rms_of_one_plus if plain is padded_rms_norm and adds_one(norm) else plain)

    def _pad(self, module: nn.Module, name: str, sides: tuple[int, ...], undo: Reversal) -> None:
        value = module._parameters[name]
        if value is not None:
            undo.set_parameter(module, name, nn.Parameter(F.pad(value.detach(), sides), requires_grad=False))

    def _widened(self, module: nn.Module, args: Any, output: Any) -> Any:
        return map_tensors(output, lambda t: F.pad(t, (0, self._more)) if t.shape[-1] == self.size else t)

    def _narrowed(self, module: nn.Module, args: Any, output: Any) -> Any:
        def narrow(t: torch.Tensor) -> torch.Tensor:
            return t.cpu()[..., : self.size].contiguous() if t.ndim == 3 and t.shape[-1] == self.padded else t

        return map_tensors(output, narrow)


def _is_norm(module: nn.Module) -> bool:
    return type(module) is nn.LayerNorm or is_rms_norm(module)


def _epsilon(norm: nn.Module) -> float:
    return float(getattr(norm, epsilon_of(norm)))


def _feed_forwards(block: nn.Module) -> Iterator[tuple[list[nn.Linear], nn.Linear]]:
    """The feed-forward parts of known naming in a block: the linears that read its input, and the one that writes."""
    for module in block.modules():
        for row in FEED_FORWARDS:
            found = [_linear(module, name) for name in (*row.up, row.down)]
            linears = [m for m in found if m is not None]
            if len(linears) == len(found):
                yield linears[:-1], linears[-1]
                break


def _linear(module: nn.Module, path: str) -> nn.Linear | None:
    found: Any = module
    for name in path.split("."):
        found = found._modules.get(name) if found is not None else None
    return found if type(found) is nn.Linear else None


def padded_layer_norm(self: Any, x: torch.Tensor) -> torch.Tensor:
    """[..., padded] normalised over its real lanes, in two passes; the others stay 0."""
    d = (x - x.sum(-1, keepdim=True) * self.share_of_lane) * self.real_lanes
    variance = (d * d).sum(-1, keepdim=True) * self.share_of_lane
    y = d * torch.rsqrt(variance + self.own_epsilon) * self.weight
    return y if self.bias is None else y + self.bias


def padded_rms_norm(self: Any, x: torch.Tensor) -> torch.Tensor:
    """[..., padded] over the root mean square of its real lanes, times the gain."""
    return self.weight * (x * torch.rsqrt((x * x).sum(-1, keepdim=True) * self.share_of_lane + self.own_epsilon))


def padded_rms_of_one_plus(self: Any, x: torch.Tensor) -> torch.Tensor:
    """[..., padded] over the root mean square of its real lanes, times 1 + gain."""
    y = x * torch.rsqrt((x * x).sum(-1, keepdim=True) * self.share_of_lane + self.own_epsilon)
    return y * (1.0 + self.weight)
