"""Facts 6.2, attention: masks, rotary positions, layouts of q, k and v, lengths, blocks after blocks."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from anchors.published import Cosine, NotANumber, Raises, Right, Wrong, unsupported
from anchors.stimulus import APR, AUG, SEP, Pair, both, both_eagerly, compiled, normal, stimulus, there
from torch import Tensor, nn

HALF_MIN = torch.finfo(torch.float16).min / 2
LEAK = Wrong({"max": (2e-5, 4.9e-5), "mean": (2e-5, 4.9e-5)}, band=1.2, at_least=1e-5)


def masked_softmax(x: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(x + mask, dim=-1)


def mask_of(masked: int, length: int, fill: float) -> Tensor:
    mask = torch.zeros(1, length)
    mask[:, length - masked :] = fill
    return mask


@stimulus("E-01", "7d", published={APR: LEAK, AUG: LEAK, SEP: LEAK})
def softmax_leaks_into_masked_positions() -> Pair:
    result = compiled(masked_softmax, normal(64, 128), mask_of(62, 128, -torch.inf)).cpu()
    return result[:, 66:], torch.zeros(64, 62)


@stimulus("E-01", published={p: Right(0.0013) for p in (APR, AUG, SEP)})
def sixty_two_masked_positions_hold_a_thousandth_of_the_mass() -> Pair:
    result = compiled(masked_softmax, normal(64, 128), mask_of(62, 128, -torch.inf)).cpu().float()
    return result[:, 66:].sum(-1), torch.full((64,), 0.0013)  # 0.13 %, within a factor of 2


@stimulus("E-01", published={p: Right(0.004) for p in (APR, AUG, SEP)})
def softmax_without_a_mask() -> Pair:
    return both(lambda x: torch.softmax(x, dim=-1), normal(64, 128))


def split(x: Tensor, dim: int = 64) -> Tensor:
    return x.view(x.shape[0], x.shape[1], -1, dim).transpose(1, 2)


def qkv(length: int = 64, dim: int = 64) -> list[Tensor]:
    return [normal(2, length, 4 * dim, seed=s) for s in range(3)]


@stimulus("E-04", published={APR: Wrong({"max": (2.96, 3.18)}), AUG: Right(0.02)})
def projected_heads_transposed() -> Pair:
    weight = normal(512, 256, seed=1, scale=0.5 / 16)
    return both(lambda x, w: split(F.linear(x, w)), normal(1, 64, 256), weight)


@stimulus("E-04", published={APR: Wrong({"max": (2.96, 3.18)}), AUG: Right(0.02)})
def heads_transposed() -> Pair:
    return both(lambda x: split(x) + 0.0, normal(1, 64, 512, scale=0.5))


@stimulus("E-04", published={APR: Right(0.01), AUG: Right(0.01)})
def heads_of_one_token_transposed() -> Pair:
    return both(lambda x: split(x) + 0.0, normal(1, 1, 512, scale=0.5))


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(split(q), split(k), split(v))


def attend_contiguous(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(*(split(x).contiguous() for x in (q, k, v)))


@stimulus("E-17", published={AUG: Cosine(-0.3, 0.3), SEP: Cosine(-0.3, 0.3)})
def attention_over_transposed_views() -> Pair:
    return both(attend, *qkv())


@stimulus("E-17", "6.8", published={AUG: Cosine(0.99, 1), SEP: Cosine(0.99, 1)})
def attention_over_contiguous_heads() -> Pair:
    return both(attend_contiguous, *qkv())


class PostNorm(nn.Module):
    """A post-norm feed-forward block of width 128."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.up, self.norm = nn.Linear(128, 128), nn.LayerNorm(128)
        self.up.weight.data = normal(128, 128, seed=seed, scale=0.09)
        self.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x + self.up(x))


def _two_blocks(between: Any) -> Pair:
    x, expected = there(normal(2, 64, 128)), normal(2, 64, 128)
    for seed in (1, 2):
        expected = PostNorm(seed)(expected)
        x = between(torch.compile(PostNorm(seed).half().to("spyre"), dynamic=False)(x))
    return x, expected


@stimulus("E-18", published={AUG: Cosine(-1, 0.9), SEP: Cosine(-1, 0.9)})
def post_norm_block_reads_the_output_of_another() -> Pair:
    return _two_blocks(lambda x: x)


@stimulus("E-18", "6.8", published={AUG: Cosine(0.99, 1), SEP: Cosine(0.99, 1)})
def post_norm_block_reads_a_clone() -> Pair:
    return _two_blocks(torch.clone)


def tables(length: int, dim: int) -> tuple[Tensor, Tensor]:
    frequency = 1.0 / 10000 ** (torch.arange(0, dim, 2).float() / dim)
    angle = torch.outer(torch.arange(length).float(), frequency)
    return angle.cos(), angle.sin()


def rotate_half(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin


def rotate_by_matrix(x: Tensor, rotation: Tensor) -> Tensor:
    """x: [B, H, S, D]; rotation: [S, 2, 2, D/2], applied by multiply and sum."""
    pairs = x.view(*x.shape[:-1], 1, 2, x.shape[-1] // 2)
    return (pairs * rotation).sum(-2).reshape(x.shape)


def _doubled(length: int, dim: int) -> list[Tensor]:
    return [torch.cat((t, t), dim=-1) for t in tables(length, dim)]


@stimulus("E-15", published={APR: Wrong({"max": 5.22}), AUG: Wrong({"max": 5.22})})
def rope_by_rotate_half() -> Pair:
    return both(rotate_half, normal(1, 8, 64, 128), *_doubled(64, 128))


@stimulus("E-15", "6.8", published={APR: Right(0.0195), AUG: Right(0.0195), SEP: Right(0.0195)})
def rope_by_matrix() -> Pair:
    x, (cos, sin) = normal(1, 8, 64, 128), tables(64, 128)
    rotation = torch.stack((torch.stack((cos, -sin), 1), torch.stack((sin, cos), 1)), 1)
    return compiled(rotate_by_matrix, x, rotation), rotate_half(x, *_doubled(64, 128))


@stimulus("E-16", published={p: unsupported(r".*stick expression.*32\*d") for p in (APR, AUG, SEP)})
def rope_by_matrix_on_heads_of_64() -> Pair:
    x, (cos, sin) = normal(1, 8, 64, 64), tables(64, 64)
    rotation = torch.stack((torch.stack((cos, -sin), 1), torch.stack((sin, cos), 1)), 1)
    return both(rotate_by_matrix, x, rotation)


def tables_on_device(x: Tensor) -> Tensor:
    positions = torch.arange(64, device=x.device, dtype=x.dtype)
    frequency = torch.exp(torch.arange(0, 64, device=x.device, dtype=x.dtype) * -0.14)
    angle = torch.outer(positions, frequency)
    return x + torch.cat((angle.cos(), angle.sin()), dim=-1)


@stimulus("E-19", published={APR: Wrong(), AUG: Wrong(), SEP: Wrong()})
def rope_tables_made_on_the_device() -> Pair:
    return both(tables_on_device, normal(64, 128))


def _with_mask(mask: Tensor, dtype: torch.dtype = torch.float16) -> Pair:
    q, k, v = (normal(1, 2, 64, 64, seed=s) for s in range(3))
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return compiled(F.scaled_dot_product_attention, q, k, v, mask, dtype=dtype), expected


def left_padded(fill: float) -> Tensor:
    """Heavily padded on the left and causal: the rows of padding see nothing."""
    mask = torch.zeros(1, 1, 64, 64)
    mask[..., :60] = fill
    return mask


@stimulus("E-20", published={AUG: NotANumber(), SEP: NotANumber()})
def two_infinite_masks_on_one_cell() -> Pair:
    masks = mask_of(8, 64, -torch.inf), mask_of(8, 64, -torch.inf)
    return both(lambda x, a, b: torch.softmax(x + (a + b), -1), normal(64, 64), *masks, dtype=torch.bfloat16)


@stimulus("E-20", published={AUG: Right(0.01), SEP: Right(0.01)})
def one_infinite_mask_per_cell() -> Pair:
    return both(masked_softmax, normal(64, 64), mask_of(8, 64, -torch.inf), dtype=torch.bfloat16)


@stimulus("E-21", published={AUG: Cosine(-1, 0.9), SEP: Cosine(-1, 0.9)})
def left_padding_filled_with_infinity() -> Pair:
    return _with_mask(left_padded(-torch.inf))


@stimulus("E-21", "6.8", published={AUG: Cosine(0.99, 1), SEP: Cosine(0.99, 1)})
def left_padding_filled_with_half_the_minimum() -> Pair:
    return _with_mask(left_padded(HALF_MIN))


def _positions(count: int) -> Pair:
    return both(F.scaled_dot_product_attention, *(normal(1, 1, count, 64, seed=s) for s in range(3)))


@stimulus("E-22", published={AUG: Cosine(0.48, 0.87), SEP: Cosine(0.48, 0.87)})  # 1 - 0.74, within a factor of 2
def attention_over_3500_positions() -> Pair:
    return _positions(3500)


@stimulus("E-22", "6.8", published={AUG: Cosine(0.99, 1), SEP: Cosine(0.99, 1)})
def attention_over_3520_positions() -> Pair:
    return _positions(3520)


@stimulus("E-61", published={AUG: unsupported(""), SEP: unsupported("")})
def where_broadcasts_both_ways() -> Pair:
    rows, columns = normal(2, 1, 64, 1), normal(2, 1, 1, 64, seed=1)
    return both(lambda a, b: torch.where(a > b, a, b), rows, columns)


@stimulus("E-61", "E-51", published={AUG: unsupported(""), SEP: unsupported("")})
def bool_from_an_integer_comparison() -> Pair:
    lengths, positions = torch.full((64, 64), 9, dtype=torch.int32), torch.arange(64, dtype=torch.int32).repeat(64, 1)
    return both(torch.lt, positions, lengths)


@stimulus("E-61", "6.8", published={AUG: Right(0.004), SEP: Right(0.004)})
def mask_built_on_the_host() -> Pair:
    return both(lambda x, m: torch.softmax(x + m, -1), normal(64, 64), mask_of(8, 64, HALF_MIN).expand(64, 64))


@stimulus(
    "E-72",
    published={p: Raises("InductorError", "Spyre backend does not support|dxp_standalone") for p in (APR, AUG, SEP)},
)
def attention_with_values_of_another_width() -> Pair:
    q, k, v = normal(1, 2, 64, 128), normal(1, 2, 64, 128, seed=1), normal(1, 2, 64, 64, seed=2)
    return both(F.scaled_dot_product_attention, q, k, v)


@stimulus(
    "3.7",
    published={p: Raises("NotImplementedError", "^Attention dropout not implemented for Spyre") for p in (APR, AUG)},
)
def attention_with_dropout() -> Pair:
    return both(lambda q: F.scaled_dot_product_attention(q, q, q, dropout_p=0.1), normal(1, 2, 64, 64))


@stimulus(
    "E-65",
    "3.2",
    published={
        APR: Raises("NotImplementedError", "Could not run 'aten::"),
        AUG: Raises("NotImplementedError", "Could not run 'aten::"),
    },
)
def attention_eagerly() -> Pair:
    return both_eagerly(F.scaled_dot_product_attention, *(normal(1, 2, 64, 64, seed=s) for s in range(3)))
