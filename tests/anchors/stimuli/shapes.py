"""Facts 6.3: shapes, sticks and layouts; facts 6.6 where a shape is the cause."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from anchors.published import Either, Raises, Right, Wrong, aborts, unsupported
from anchors.stimulus import APR, AUG, NOV, SEP, Pair, both, both_eagerly, compiled, eager, normal, stimulus, there
from torch import Tensor

E25 = unsupported(r"cannot restickify any input layout of \w+ to carry \w+=d1")
ALWAYS = (APR, AUG, SEP)


@stimulus("E-06", published={NOV: Wrong({"max": 4.92}), APR: Right(0.002), AUG: Right(0.002)})
def cat_with_an_input_of_size_one() -> Pair:
    return both_eagerly(lambda a, b: torch.cat((a, b), 0), normal(1, 64), normal(63, 64, seed=1))


@stimulus("E-23", published={APR: aborts("could not identify K symbol"), AUG: aborts("could not identify K symbol")})
def feed_forward_of_4304() -> Pair:
    up, down = normal(4304, 1152, scale=0.03), normal(1152, 4304, seed=1, scale=0.015)
    return both(lambda x, u, d: F.linear(F.gelu(F.linear(x, u)), d), normal(64, 1152), up, down)


@stimulus("E-23", published={AUG: Right(0.05)})
def feed_forward_of_4352() -> Pair:
    up, down = normal(4352, 1152, scale=0.03), normal(1152, 4352, seed=1, scale=0.015)
    return both(lambda x, u, d: F.linear(F.relu(F.linear(x, u)), d), normal(64, 1152), up, down)


def _head(vocabulary: int, width: int) -> Pair:
    """A head whose weight is allocated and never written: only its compilation matters."""
    weight = torch.empty(vocabulary, width, dtype=torch.float16, device="spyre")
    return torch.compile(F.linear, dynamic=False)(there(normal(1, width)), weight), torch.zeros(1, vocabulary)


@stimulus("E-24", published={p: aborts() for p in ALWAYS})
def head_of_131072_by_5120() -> Pair:
    return _head(131072, 5120)


@stimulus("E-24", published={p: aborts() for p in ALWAYS})
def head_of_262144_by_3840() -> Pair:
    return _head(262144, 3840)


@stimulus("E-24", "4.5", published={p: aborts() for p in ALWAYS})
def head_of_2374_sticks() -> Pair:
    return _head(151936, 2048)


@stimulus("E-24", "4.5", published={p: Right(0) for p in ALWAYS}, long=True)
def head_of_2375_sticks() -> Pair:
    weight = torch.zeros(152000, 2048, dtype=torch.float16, device="spyre")
    return torch.compile(F.linear, dynamic=False)(there(normal(1, 2048)), weight), torch.zeros(1, 152000)


@stimulus("E-25", published=dict.fromkeys(ALWAYS, E25))
def product_with_one_column() -> Pair:
    return both(torch.matmul, normal(7, 128), normal(128, 1))


@stimulus("E-25", published=dict.fromkeys(ALWAYS, E25))
def product_with_one_column_eagerly() -> Pair:
    return both_eagerly(torch.mm, normal(7, 128), normal(128, 1))


@stimulus("E-25", published={p: Right(0.1) for p in ALWAYS})
def product_with_64_columns() -> Pair:
    return both(torch.matmul, normal(7, 128), normal(128, 64))


def _linear(outputs: int) -> Pair:
    return both(F.linear, normal(8, 128), normal(outputs, 128, seed=1, scale=0.1))


@stimulus("E-26", published={AUG: Wrong(), SEP: Wrong()})
def linear_to_32000() -> Pair:
    return _linear(32000)


@stimulus("E-26", published={AUG: Right(0.1), SEP: Right(0.1)})
def linear_to_32768() -> Pair:
    return _linear(32768)


@stimulus("E-26", "7.7", published={AUG: Right(0.1), SEP: Right(0.1)})
def linear_to_768() -> Pair:
    return _linear(768)


@stimulus("E-35", published={AUG: Wrong(), SEP: Wrong()})
def columns_from_inside_a_stick() -> Pair:
    return both(lambda x: x[:, 32:96] + 1, normal(64, 128))


@stimulus("E-35", published={AUG: Wrong(), SEP: Wrong()})
def columns_from_inside_a_stick_eagerly() -> Pair:
    return both_eagerly(lambda x: x.narrow(1, 32, 64) + 1, normal(64, 128))


@stimulus("E-35", published={AUG: Right(0.01), SEP: Right(0.01)})
def columns_from_a_whole_stick() -> Pair:
    return both(lambda x: x[:, 64:128] + 1, normal(64, 256))


@stimulus("E-36", published={AUG: Wrong()})
def sliced_and_transposed_view_in_a_fused_graph() -> Pair:
    return both(lambda x: x[:, 64:].transpose(1, 2) * 2 + 1, normal(2, 128, 4, 64))


@stimulus("E-37", published={APR: Wrong({"max": 5.86, "share": 0.848}), AUG: Right(0.01)})
def transposed_then_elementwise() -> Pair:
    return both(lambda x: x.t() + 1, normal(256, 128))


@stimulus("E-37", published={APR: Wrong({"max": 6.41, "share": 0.998}), AUG: Right(0.01)})
def transposed_then_contiguous() -> Pair:
    return both(lambda x: x.t().contiguous(), normal(256, 128))


def _mean_zeros(x: Tensor, y: Tensor) -> Tensor:
    return x.mean(-1, keepdim=True) + torch.zeros_like(y) + y


@stimulus("E-42", published={APR: Wrong(), AUG: Right(0.02)})
def mean_broadcast_past_a_stick() -> Pair:
    return both(_mean_zeros, 1 + normal(64, 256), normal(64, 256, seed=1))


@stimulus("E-42", published={APR: Wrong(), AUG: Right(0.03)})
def column_broadcast_past_a_stick() -> Pair:
    return both(torch.mul, normal(1, 11, 2880), normal(1, 11, 1, seed=1))


@stimulus("E-42", published={APR: Right(0.03)})
def column_broadcast_in_the_first_stick() -> Pair:
    x, y = normal(1, 11, 2880), normal(1, 11, 1, seed=1)
    return compiled(torch.mul, x, y).cpu()[..., :64], (x * y)[..., :64]


@stimulus("E-68", published={APR: unsupported("stick expression"), AUG: unsupported("stick expression")})
def hidden_size_of_312() -> Pair:
    weight, gain = normal(312, 312, seed=1, scale=0.05), torch.ones(312)
    return both(lambda x, w, g: F.layer_norm(x + F.linear(x, w), (312,), g, g), normal(2, 64, 312), weight, gain)


@stimulus("E-70", published={p: Either(unsupported(""), Wrong()) for p in (AUG, SEP)})
def cat_at_an_offset_inside_a_stick() -> Pair:
    return both(lambda a, b: torch.cat((a, b), -1), normal(64, 32), normal(64, 32, seed=1))


@stimulus("E-70", "2.3", published={p: Either(unsupported(""), Wrong()) for p in (AUG, SEP)})
def pad_left_by_32() -> Pair:
    return both(lambda x: F.pad(x, (32, 0)), normal(64, 64))


@stimulus("E-70", "2.3", published={AUG: Right(1e-6), SEP: Right(1e-6)})
def cat_and_pad_at_whole_sticks() -> Pair:
    return both(lambda a, b: F.pad(torch.cat((a, b), -1), (64, 0)), normal(64, 64), normal(64, 64, seed=1))


def _lookup(rows: int) -> Pair:
    ids = torch.zeros(2, 64, dtype=torch.int64)
    return both(F.embedding, ids, normal(rows, 128))


@stimulus("E-71", published={AUG: unsupported("layout")})
def token_types_of_one_row() -> Pair:
    return _lookup(1)


@stimulus("E-71", published={AUG: Right(0.002), SEP: Right(0.002)})
def token_types_of_two_rows() -> Pair:
    return _lookup(2)


@stimulus("E-71", "6.8", published={AUG: Right(0.01), SEP: Right(0.01)})
def token_types_by_a_broadcast_addition() -> Pair:
    return both(lambda x, w: x + w[0], normal(2, 64, 128), normal(1, 128, seed=1))


@stimulus("E-30", published={AUG: Right(0.002), SEP: Right(0.002)})
def index_select_of_one_row() -> Pair:
    return both(lambda x, i: torch.index_select(x, 0, i), normal(64, 128), torch.tensor([5]))


@stimulus("E-73", published={AUG: Raises("Exception", "Spyre backend does not support|dxp_standalone")})
def rows_of_a_rotated_tensor_of_rank_six() -> Pair:
    pairs, rotation = normal(1, 2, 64, 1, 2, 64), normal(64, 2, 2, 64, seed=1)
    return both(lambda x, r: (x * r)[:, :, -1, :, 1], pairs, rotation)


@stimulus("E-48", published={AUG: aborts()})
def fp8_product_over_64() -> Pair:
    return _fp8(64)


@stimulus("E-48", published={AUG: Right(2.0)})
def fp8_product_over_128() -> Pair:
    return _fp8(128)


def _fp8(inner: int) -> Pair:
    a, b, one = normal(64, inner), normal(64, inner, seed=1), torch.ones(())
    eighths = [x.to(torch.float8_e4m3fn) for x in (a, b)]

    def product(a: Tensor, b: Tensor, scale: Tensor) -> Tensor:
        return torch._scaled_mm(a, b.t(), scale, scale, out_dtype=torch.float16)

    result = torch.compile(product, dynamic=False)(*(x.to("spyre") for x in eighths), one.to("spyre"))
    return result, eighths[0].float() @ eighths[1].float().t()


@stimulus("E-49", published={AUG: unsupported("compound stick expression")})
def convolution_with_stride_two() -> Pair:
    return both(lambda x, w: F.conv2d(x, w, stride=2), normal(1, 64, 18, 18), normal(64, 64, 2, 2, scale=0.06))


@stimulus("E-56", published={p: Right(0) for p in ALWAYS})
def padded_head_rows_win_over_negative_logits() -> Pair:
    weight = torch.cat((-torch.ones(60, 64), torch.zeros(4, 64)))
    winner = eager(F.linear, torch.ones(1, 64), weight).cpu().argmax(-1)
    return (winner >= 60).float(), torch.ones(1)


@stimulus("E-69", published={NOV: Raises("RuntimeError", "Unsupported tensor rank: 5")})
def rank_five_to_the_device() -> Pair:
    return there(normal(2, 2, 2, 2, 64)), normal(2, 2, 2, 2, 64)


@stimulus("E-69", "2.1", published={NOV: Wrong(), APR: Right(0.002), AUG: Right(0.002)})
def rows_of_100_to_the_device_and_back() -> Pair:
    return there(normal(8, 100)), normal(8, 100)


@stimulus("E-69", "2.1", published={NOV: Right(0.002)})
def rows_of_40_and_of_128_to_the_device_and_back() -> Pair:
    both_widths = [there(normal(8, n)).cpu().flatten() for n in (40, 128)]
    return torch.cat(both_widths), torch.cat([normal(8, n).flatten() for n in (40, 128)])


@stimulus("E-69", published={NOV: Wrong()})
def softmax_eagerly_in_2025() -> Pair:
    return both_eagerly(lambda x: torch.softmax(x, -1), normal(64, 64))
