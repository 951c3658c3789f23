"""Facts 6.2, normalisation: RMSNorm on views, LayerNorm without weights, small and near-constant rows."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from anchors.published import NotANumber, Right, Wrong, aborts
from anchors.stimulus import APR, AUG, SEP, Pair, both, both_eagerly, compiled, normal, stimulus, there

HEADS = (2, 64, 16, 128)  # [B, S, H, D]; transposed to [B, H, S, D]
E03 = Wrong({"max": 7.95, "mean": 1.10})


def rms_norm(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)


@stimulus("E-03", published={APR: E03, AUG: E03, SEP: E03})
def rms_norm_of_transposed_heads_eagerly() -> Pair:
    norm = torch.nn.RMSNorm(128, eps=1e-6)
    x = normal(*HEADS)
    return norm.half().to("spyre")(there(x).transpose(1, 2)), rms_norm(x.transpose(1, 2))


@stimulus("E-03", published={APR: E03, AUG: E03, SEP: E03})
def rms_norm_of_transposed_heads_compiled_with_clone() -> Pair:
    return compiled(lambda x: rms_norm(x.transpose(1, 2)).clone(), x := normal(*HEADS)), rms_norm(x.transpose(1, 2))


@stimulus("E-03", published={APR: Right(0.031), AUG: Right(0.031), SEP: Right(0.031)})
def rms_norm_of_contiguous_heads() -> Pair:
    return both(rms_norm, normal(*HEADS).transpose(1, 2).contiguous())


@stimulus("E-12", published={APR: Wrong({"max": 3.57}), AUG: Right(0.03), SEP: Right(0.03)})
def layer_norm_without_weights() -> Pair:
    return both(lambda x: F.layer_norm(x, (128,)), normal(64, 128))


@stimulus("E-12", published={APR: Right(2e-5)})
def layer_norm_without_weights_is_constant() -> Pair:
    return compiled(lambda x: F.layer_norm(x, (128,)), normal(64, 128)), torch.full((64, 128), -0.0013)


@stimulus("E-12", published={APR: Right(0.03), AUG: Right(0.03), SEP: Right(0.03)})
def layer_norm_with_weights() -> Pair:
    return both(lambda x, w, b: F.layer_norm(x, (128,), w, b), normal(64, 128), torch.ones(128), torch.zeros(128))


@stimulus("E-13", published={APR: aborts("data_connect zero_sfp_lrf does not have any producer")})
def layer_norm_of_a_small_shape() -> Pair:
    return both(lambda x, w, b: F.layer_norm(x, (10,), w, b), normal(2, 10), torch.ones(10), torch.zeros(10))


def near_constant_rows() -> torch.Tensor:
    """64 rows of mean 4 to 12 with a standard deviation of 0.03: a variance/mean² of 1e-5, not 0."""
    return (torch.linspace(4, 12, 64)[:, None] + normal(64, 768, scale=0.03)).half().float()


@stimulus("E-14", published={AUG: NotANumber(), SEP: NotANumber()})
def layer_norm_of_near_constant_rows() -> Pair:
    x = near_constant_rows()
    return both(lambda x, w, b: F.layer_norm(x, (768,), w, b), x, torch.ones(768), torch.zeros(768))


@stimulus("E-14", published={AUG: NotANumber(), SEP: NotANumber()})
def layer_norm_of_near_constant_rows_in_bf16() -> Pair:
    x = (torch.linspace(4, 12, 64)[:, None] + normal(64, 768, scale=0.03)).bfloat16().float()
    weights = torch.ones(768), torch.zeros(768)
    return both(lambda x, w, b: F.layer_norm(x, (768,), w, b), x, *weights, dtype=torch.bfloat16)


@stimulus("E-14", "6.8", published={AUG: Right(0.05), SEP: Right(0.05)})
def layer_norm_of_near_constant_rows_unfused_in_fp32() -> Pair:
    def unfused(x: torch.Tensor) -> torch.Tensor:
        x = x.float()
        centred = x - x.mean(-1, keepdim=True)
        return centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + 1e-5)

    # The rows hold what DL16 holds, so that the figure is the norm's error and not the copy's.
    x = near_constant_rows().mul(64).trunc().div(64)
    return both(unfused, x)


@stimulus("E-14", published={AUG: Right(0.03), SEP: Right(0.03)})
def layer_norm_of_usual_rows() -> Pair:
    rows = normal(64, 768)
    return both_eagerly(lambda x, w, b: F.layer_norm(x, (768,), w, b), rows, torch.ones(768), torch.zeros(768))
