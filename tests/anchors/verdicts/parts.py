"""The published workarounds written out by hand (facts 6.8, 7.7): heads padded, masks from the host, RoPE as a matrix.

Nothing of `adapters/` is used: these modules are the independent answer to what the device trips over. Shapes: x is
(batch, length, width), mask (batch, 1 or heads, length, length) additive, rotation (length, 2, 2, padded head / 2).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MASKED = torch.finfo(torch.float16).min / 2
"""Also for bfloat16: half of its own minimum is beyond what the device's 16-bit format holds (facts 1.6)."""


def parameter(x: Tensor) -> nn.Parameter:
    """A frozen copy."""
    return nn.Parameter(x.detach().clone(), requires_grad=False)


def widen(weight: Tensor, heads: int, padded: int, parts: int = 1) -> Tensor:
    """(heads x dim, ...) with every head, or every one of its `parts`, padded by zero rows to `padded` in all."""
    rows = weight.reshape(heads, parts, -1, *weight.shape[1:])
    wide = rows.new_zeros(heads, parts, padded // parts, *weight.shape[1:])
    wide[:, :, : rows.shape[2]] = rows
    return wide.reshape(heads * padded, *weight.shape[1:])


def rotation(inverse_frequency: Tensor, length: int, padded: int, scaling: float = 1.0) -> Tensor:
    """The rotation matrices of positions 0.. on the host: (length, 2, 2, padded / 2)."""
    angle = torch.outer(torch.arange(length).float(), inverse_frequency.float())
    angle = F.pad(angle, (0, padded // 2 - angle.shape[1]))
    cos, sin = angle.cos() * scaling, angle.sin() * scaling
    return torch.stack((torch.stack((cos, -sin), 1), torch.stack((sin, cos), 1)), 1)


def rotate(x: Tensor, matrix: Tensor) -> Tensor:
    """x: (batch, heads, length, padded)."""
    pairs = x.view(*x.shape[:-1], 1, 2, x.shape[-1] // 2)
    return (pairs * matrix).sum(-2).reshape(x.shape)


class RMSNorm(nn.Module):
    """x·x instead of pow(2), reduced in the input's dtype."""

    def __init__(self, gain: Tensor, eps: float) -> None:
        super().__init__()
        self.gain, self.eps = parameter(gain), eps

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.eps) * self.gain


class LayerNorm(nn.Module):
    """The fused form; a stock norm without a bias gets a bias of zeros."""

    def __init__(self, stock: nn.LayerNorm) -> None:
        super().__init__()
        self.gain, self.eps = parameter(stock.weight), stock.eps
        self.bias = parameter(torch.zeros_like(stock.weight) if stock.bias is None else stock.bias)

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.gain.shape, self.gain, self.bias, self.eps)


class Linear(nn.Module):
    """A linear of given weight and bias."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.weight = parameter(weight)
        self.bias = None if bias is None else parameter(bias)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


def plain(stock: Any) -> Linear:
    """A stock linear as it is."""
    return Linear(stock.weight, stock.bias)


class Attention(nn.Module):
    """Heads padded to `padded`, made contiguous before SDPA; the scale stays that of the true head."""

    def __init__(
        self, q: Any, k: Any, v: Any, o: Any, dim: int, padded: int, scale: float, rotates: bool,
        norms: tuple[nn.Module, nn.Module] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.padded, self.scale, parts = padded, scale, 2 if rotates else 1
        self.q, self.k = (self._padded(linear, dim, parts) for linear in (q, k))
        self.v = self._padded(v, dim, 1)
        self.o = Linear(widen(o.weight.t(), o.weight.shape[1] // dim, padded).t(), o.bias)
        self.norms = None if norms is None else nn.ModuleList(norms)
        self.shared = q.weight.shape[0] // k.weight.shape[0]

    def _padded(self, linear: Any, dim: int, parts: int) -> Linear:
        heads = linear.weight.shape[0] // dim
        bias = None if linear.bias is None else widen(linear.bias, heads, self.padded, parts)
        return Linear(widen(linear.weight, heads, self.padded, parts), bias)

    def split(self, x: Tensor, norm: nn.Module | None = None) -> Tensor:
        heads = x.view(x.shape[0], x.shape[1], -1, self.padded)
        return (heads if norm is None else norm(heads)).transpose(1, 2).contiguous()

    def repeat(self, x: Tensor) -> Tensor:
        if self.shared == 1:
            return x
        wide = x.unsqueeze(2).expand(x.shape[0], x.shape[1], self.shared, *x.shape[2:])
        return wide.reshape(x.shape[0], -1, *x.shape[2:]).contiguous()

    def forward(self, x: Tensor, mask: Tensor, matrix: Tensor | None) -> Tensor:
        q_norm, k_norm = self.norms or (None, None)
        q, k, v = self.split(self.q(x), q_norm), self.split(self.k(x), k_norm), self.split(self.v(x))
        if matrix is not None:
            q, k = rotate(q, matrix), rotate(k, matrix)
        mixed = F.scaled_dot_product_attention(q, self.repeat(k), self.repeat(v), attn_mask=mask, scale=self.scale)
        return self.o(mixed.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1))


class FeedForward(nn.Module):
    """down(act(up(x))), with a gate down(act(gate(x)) * up(x))."""

    def __init__(self, up: Linear, down: Linear, activation: str, gate: Linear | None = None) -> None:
        super().__init__()
        self.up, self.down, self.gate, self.activation = up, down, gate, activation

    def forward(self, x: Tensor) -> Tensor:
        act = {"gelu": F.gelu, "tanh": lambda t: F.gelu(t, approximate="tanh"), "silu": F.silu}[self.activation]
        return self.down(act(self.up(x)) if self.gate is None else act(self.gate(x)) * self.up(x))


class PostNorm(nn.Module):
    """An encoder block whose norms follow the additions."""

    def __init__(self, attention: Attention, feed_forward: FeedForward, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.attention, self.feed_forward, self.first, self.second = attention, feed_forward, first, second

    def forward(self, x: Tensor, mask: Tensor, matrix: Tensor | None = None) -> Tensor:
        x = self.first(x + self.attention(x, mask, matrix))
        return self.second(x + self.feed_forward(x))


class PreNorm(nn.Module):
    """A block whose norms precede the branches; `after` are Gemma's norms behind the branches."""

    def __init__(
        self, attention: Attention, feed_forward: FeedForward, norms: tuple[nn.Module | None, nn.Module],
        after: tuple[nn.Module, nn.Module] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        identity = nn.Identity()
        self.first, self.second = norms[0] or identity, norms[1]
        self.after_first, self.after_second = after or (identity, identity)

    def forward(self, x: Tensor, mask: Tensor, matrix: Tensor | None) -> Tensor:
        x = x + self.after_first(self.attention(self.first(x), mask, matrix))
        return x + self.after_second(self.feed_forward(self.second(x)))
