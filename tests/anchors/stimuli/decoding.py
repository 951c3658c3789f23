"""Facts 6.2: a decoder block over one token and over a prompt (E-07)."""

from __future__ import annotations

import torch
from anchors.published import Right, Wrong
from anchors.stimulus import APR, AUG, SEP, Pair, normal, stimulus, there
from anchors.verdicts.parts import Attention, FeedForward, Linear, PreNorm, RMSNorm, rotation

WIDTH, HEADS = 256, 128


def _linear(outputs: int, inputs: int, seed: int) -> Linear:
    return Linear(normal(outputs, inputs, seed=seed, scale=inputs**-0.5), None)


def _block() -> PreNorm:
    linears = [_linear(WIDTH, WIDTH, seed) for seed in range(4)]
    attention = Attention(*linears, HEADS, HEADS, HEADS**-0.5, rotates=True)
    gated = FeedForward(_linear(512, WIDTH, 4), _linear(WIDTH, 512, 5), "silu", gate=_linear(512, WIDTH, 6))
    return PreNorm(attention, gated, (RMSNorm(torch.ones(WIDTH), 1e-6), RMSNorm(torch.ones(WIDTH), 1e-6)))


def _run(length: int) -> Pair:
    x, matrix = normal(1, length, WIDTH, seed=9), rotation(10000.0 ** -(torch.arange(64) / 64), length, HEADS)
    mask = torch.zeros(1, 1, length, length)
    expected = _block()(x, mask, matrix)
    block = torch.compile(_block().half().to("spyre"), dynamic=False)
    return block(there(x), there(mask), there(matrix)), expected


@stimulus("E-07", published={APR: Wrong({"max": (0.3, 6.0)})})
def one_token_through_a_decoder_block() -> Pair:
    return _run(1)


@stimulus("E-07", published={APR: Right(0.16), AUG: Right(0.16), SEP: Right(0.16)})  # 0.01 to 0.08, a factor of 2
def a_prompt_through_a_decoder_block() -> Pair:
    return _run(64)
