"""RMSNorm against fp32 on rows like those of real models: the error table of E-02.

    python -m anchors.rms_error WIDTH...

prints {width: [error on the device in percent, error of fp16 in percent]}.

Real weights are not here. Rows are normal, their channels scaled by a log-normal of sigma `SPREAD`: a few channels are
tens of times larger than most, as in trained models. `SPREAD` is the one number chosen, so that the table comes out.
The baseline adds squares one after the other in fp16: that alone gives the published fp16 column and its growth with
the width.
"""

from __future__ import annotations

import json
import sys

import torch
from torch import Tensor

TOKENS, SPREAD, EPS = 128, 1.0, 1e-5


def rows(width: int, seed: int = 1) -> Tensor:
    """(tokens, width) in fp32, holding what fp16 holds."""
    generator = torch.Generator().manual_seed(seed)
    scale = torch.exp(SPREAD * torch.randn(width, generator=generator))
    return (torch.randn(TOKENS, width, generator=generator) * scale).half().float()


def rms_norm(x: Tensor) -> Tensor:
    """Without a gain: a gain multiplies both sides."""
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS)


def in_fp16(x: Tensor) -> Tensor:
    """Every step rounded to fp16, the sum element by element."""
    half = x.half()
    total = torch.zeros(x.shape[0], dtype=torch.float16)
    for column in (half * half).unbind(1):
        total = total + column
    return half * torch.rsqrt((total / x.shape[1]) + EPS)[:, None]


def percent(result: Tensor, x: Tensor) -> float:
    """Mean relative error against fp32."""
    return 100 * (result.cpu().float() / rms_norm(x) - 1).abs()[x != 0].mean().item()


def main() -> None:
    """All widths in one process."""
    compiled = torch.compile(rms_norm, dynamic=False)
    errors = {}
    for width in map(int, sys.argv[1:]):
        x = rows(width)
        errors[width] = [percent(compiled(x.half().to("spyre")), x), percent(in_fp16(x), x)]
    print(json.dumps(errors))  # noqa: T201


if __name__ == "__main__":
    main()
