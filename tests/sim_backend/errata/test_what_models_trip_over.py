"""Facts 6.8, line by line: the smallest stock-shaped module that meets it, and what `capability()` says of it.

The modules are plain torch, as a stock model has them; the last test of a line is the adapter's answer, which is clean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sim_backend import capability
from sim_backend.compiler import runtime
from sim_backend.report import CapabilityReport

HALF = torch.float16


class Layer(nn.Module):
    """One compiled block around a function of its inputs and its own modules."""

    def __init__(self, function: Callable[..., Tensor], **modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(self, *inputs)


class Stock(nn.Module):
    """A model of one kind of block, with `before` and `after` in eager code."""

    def __init__(
        self, block: nn.Module, before: Callable[..., Any] | None = None, after: Callable[..., Any] | None = None
    ) -> None:
        super().__init__()
        self.layer = nn.ModuleList([block])
        self.before, self.after = before, after

    def forward(self, **inputs: Tensor) -> Tensor:
        arguments = tuple(inputs.values()) if self.before is None else self.before(**inputs)
        hidden = self.layer[0](*arguments)
        return hidden if self.after is None else self.after(hidden)


def report_on(model: nn.Module, dtype: torch.dtype | None = HALF, **inputs: Tensor) -> CapabilityReport:
    """What the device of August 2026 makes of `model`."""
    return capability(model.eval(), inputs, "profile-2026-08", dtype=dtype)


def met(report: CapabilityReport) -> set[str]:
    """Ids of everything met: predictions, refusals, and "F" for a CPU fallback."""
    predicted = {f.predicted for f in report.predicted}
    refused = {f.erratum for f in report.failures}
    return {e for e in predicted | refused if e} | ({"F"} if report.fallbacks else set())


PASS = Layer(lambda self, x: x * 2.0)
HIDDEN = torch.zeros(2, 64, 128)


# --- MEAN pooling
def pool_by_index(hidden: Tensor) -> Tensor:
    rows = hidden.reshape(-1, 128)
    sequence = torch.arange(2, device=hidden.device).repeat_interleave(64)
    return torch.zeros(2, 128, dtype=hidden.dtype, device=hidden.device).index_add_(0, sequence, rows) / 64


@pytest.mark.fact("6.8", "E-52")
def test_mean_pooling_by_index_add_is_refused() -> None:
    report = report_on(Stock(PASS, after=pool_by_index), x=HIDDEN)
    assert "E-52" in met(report)


@pytest.mark.fact("6.8", "E-52")
def test_mean_pooling_by_index_add_in_a_block_is_refused_by_its_erratum() -> None:
    def pooled(self: nn.Module, x: Tensor, sequence: Tensor) -> Tensor:
        return torch.zeros_like(x[:2, 0]).index_add_(0, sequence, x[:, 0])

    report = report_on(Stock(Layer(pooled)), x=HIDDEN, sequence=torch.tensor([0, 1]))
    assert "E-52" in met(report)


# --- L2 normalisation
@pytest.mark.fact("6.8", "E-67")
def test_normalisation_by_clamp_min_is_refused() -> None:
    report = report_on(Stock(PASS, after=lambda h: F.normalize(h[:, 0], dim=-1)), x=HIDDEN)
    assert "E-67" in met(report)


@pytest.mark.fact("6.8", "E-67")
def test_normalisation_by_rsqrt_is_clean() -> None:
    def normal(h: Tensor) -> Tensor:
        return h * torch.rsqrt((h * h).sum(-1, keepdim=True) + 1e-12)

    assert not report_on(Stock(PASS, after=normal), x=HIDDEN).failures


# --- pow(x, 3)
def cubic_gelu(self: nn.Module, x: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * torch.pow(x, 3.0))))


@pytest.mark.fact("6.8", "E-08")
def test_gelu_new_predicts_the_wrong_cube() -> None:
    assert "E-08" in met(report_on(Stock(Layer(cubic_gelu)), x=HIDDEN))


@pytest.mark.fact("6.8", "E-08")
def test_a_product_of_three_is_clean() -> None:
    report = report_on(Stock(Layer(lambda self, x: x * x * x)), x=HIDDEN)
    assert not report.failures
    assert not report.predicted


# --- heads, sizes, tables and integers
@pytest.mark.fact("6.8", "E-65")
def test_a_float32_head_is_refused() -> None:
    model = Stock(PASS, after=nn.Linear(128, 64))
    assert "E-65" in met(report_on(model, torch.float32, x=HIDDEN))


@pytest.mark.fact("6.8", "E-25")
def test_a_head_with_one_logit_is_refused() -> None:
    model = Stock(Layer(lambda self, x: self.head(x[:, 0]), head=nn.Linear(128, 1)))
    assert "E-25" in met(report_on(model, x=HIDDEN))


@pytest.mark.fact("6.8", "E-68")
def test_a_hidden_size_that_is_no_multiple_of_64_is_refused() -> None:
    model = Stock(Layer(lambda self, x: self.up(x), up=nn.Linear(312, 1200)))
    assert "E-68" in met(report_on(model, x=torch.zeros(2, 64, 312)))


@pytest.mark.fact("6.8", "E-51")
def test_an_integer_mask_compared_with_a_number_is_refused() -> None:
    model = Stock(Layer(lambda self, x, m: torch.where((m == 0).unsqueeze(-1), x, x * 2.0)))
    assert "E-51" in met(report_on(model, x=HIDDEN, m=torch.ones(2, 64, dtype=torch.long)))


@pytest.mark.fact("6.8", "E-24")
def test_a_language_head_with_a_large_prime_in_its_sticks_is_refused() -> None:
    with torch.device("meta"):
        head = nn.Linear(2048, 151936, bias=False)
        model = Stock(Layer(lambda self, x: self.head(x), head=head))
    assert "E-24" in met(report_on(model, x=torch.zeros(1, 64, 2048)))


@pytest.mark.fact("6.8", "E-71")
def test_a_token_type_table_of_one_row_is_refused() -> None:
    table = nn.Embedding(1, 128)
    model = Stock(Layer(lambda self, ids: self.types(ids), types=table))
    assert "E-71" in met(report_on(model, ids=torch.zeros(2, 64, dtype=torch.long)))


# --- attention
def projected(self: nn.Module, x: Tensor, *mask: Tensor) -> Tensor:
    q, k, v = (p(x).unflatten(-1, (-1, self.head)).transpose(1, 2) for p in (self.q, self.k, self.v))
    return F.scaled_dot_product_attention(q, k, v, *mask).transpose(1, 2).flatten(2)


def attention(head: int = 64) -> Layer:
    layer = Layer(projected, **{name: nn.Linear(128, 128) for name in "qkv"})
    layer.head = head  # type: ignore[assignment]
    return layer


@pytest.mark.fact("6.8", "E-17")
def test_transposed_attention_operands_are_predicted() -> None:
    assert "E-17" in met(report_on(Stock(attention()), x=HIDDEN))


@pytest.mark.fact("6.8", "2.4")
def test_heads_of_32_are_refused() -> None:
    assert [f for f in report_on(Stock(attention(32)), x=HIDDEN).failures if f.kind == "layout"]


@pytest.mark.fact("6.8", "E-22")
def test_a_length_that_is_no_multiple_of_64_is_predicted() -> None:
    assert "E-22" in met(report_on(Stock(attention()), x=HIDDEN[:, :40].contiguous()))
    assert "E-22" not in met(report_on(Stock(attention()), x=HIDDEN))


@pytest.mark.fact("6.8", "E-61")
def test_a_bool_mask_is_refused() -> None:
    mask = torch.ones(2, 1, 64, 64, dtype=torch.bool).tril()
    assert "E-61" in met(report_on(Stock(attention()), x=HIDDEN, mask=mask))


@pytest.mark.fact("6.8")
def test_a_mask_made_by_tril_in_the_forward_falls_back() -> None:
    def block(self: nn.Module, x: Tensor) -> Tensor:
        return x * torch.ones(64, 128, dtype=x.dtype, device=x.device).tril()

    assert "F" in met(report_on(Stock(Layer(block)), x=HIDDEN))


# --- rotary positions
def rotated(self: nn.Module, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = torch.cat((-x[..., 64:], x[..., :64]), -1)
    return x * cos + half * sin


@pytest.mark.fact("6.8", "E-15")
def test_rotate_half_is_predicted() -> None:
    table = torch.zeros(64, 128)
    assert "E-15" in met(report_on(Stock(Layer(rotated)), x=HIDDEN, cos=table, sin=table))


@pytest.mark.fact("6.8", "E-19")
def test_position_tables_made_on_the_device_are_predicted_and_fall_back() -> None:
    def table(self: nn.Module, x: Tensor) -> Tensor:
        positions = torch.arange(64, device=x.device, dtype=x.dtype)
        angles = positions[:, None] * torch.ones(64, dtype=x.dtype, device=x.device)
        return x * torch.cat((angles.cos(), angles.sin()), -1)

    assert {"E-19", "F"} <= met(report_on(Stock(Layer(table)), x=HIDDEN))


@pytest.mark.fact("6.8", "E-16")
def test_a_rotation_over_half_heads_below_a_stick_is_refused() -> None:
    def block(self: nn.Module, x: Tensor, rotation: Tensor) -> Tensor:
        halves = x.unflatten(-1, (2, 2, 32))
        return (halves.unsqueeze(-3) * rotation).sum(-2).flatten(-3)

    report = report_on(Stock(Layer(block)), x=HIDDEN, rotation=torch.zeros(64, 1, 2, 2, 32))
    assert [f for f in report.failures if f.kind == "layout"]


# --- block borders and 16-bit values
@pytest.mark.fact("6.8", "E-18")
def test_a_block_that_ends_with_a_norm_is_predicted() -> None:
    post_norm = Layer(lambda self, x: self.norm(x + self.up(x)), norm=nn.LayerNorm(128), up=nn.Linear(128, 128))
    assert "E-18" in met(report_on(Stock(post_norm), x=HIDDEN))
    cloned = Layer(lambda self, x: self.norm(x + self.up(x)).clone(), norm=nn.LayerNorm(128), up=nn.Linear(128, 128))
    assert "E-18" not in met(report_on(Stock(cloned), x=HIDDEN))


@pytest.mark.fact("6.8", "1.6")
def test_a_residual_beyond_fp16_is_finite_in_bf16(use: Any, run: Callable[..., Any]) -> None:
    x = torch.full((64,), 60000.0)
    assert run(lambda t: t + t, x.half()).isinf().all()
    assert run(lambda t: t + t, x.bfloat16()).eq(119808.0).all()


# --- what only values decide: stored with the code as possible, not predicted
def possible(function: Callable[..., Any], *host: Tensor) -> set[str]:
    """Errata that the values given to a compiled function can trigger, as its audit says."""
    torch.compile(function, fullgraph=True, dynamic=False)(*(t.half().to("spyre") for t in host))
    return {e["id"] for kernel in runtime.AUDITS[-1]["kernels"] for e in kernel["errata"] if e["applies"]}


@pytest.mark.fact("6.8", "E-01", "E-21")
def test_an_additive_mask_can_leak_and_lose_rows(use: Any) -> None:
    q = torch.zeros(1, 1, 64, 64)
    assert {"E-01", "E-21"} <= possible(lambda q, m: F.scaled_dot_product_attention(q, q, q, m), q, q)
    torch._dynamo.reset()
    assert not {"E-01", "E-21"} & possible(lambda q: F.scaled_dot_product_attention(q, q, q), q)


@pytest.mark.fact("6.8", "E-14")
def test_a_fused_layer_norm_can_give_nan_and_an_unfused_one_in_float32_not(use: Any) -> None:
    def unfused(x: Tensor) -> Tensor:
        wide = x.float()
        centred = wide - wide.mean(-1, keepdim=True)
        return (centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + 1e-5)).half()

    assert "E-14" in possible(lambda x: F.layer_norm(x, (128,)), HIDDEN)
    torch._dynamo.reset()
    assert "E-14" not in possible(unfused, HIDDEN)


@pytest.mark.fact("6.8", "E-02")
def test_an_rms_norm_drifts_by_its_16_bit_sums(use: Any, run: Callable[..., Any]) -> None:
    x = torch.randn(128, 4096, generator=torch.Generator().manual_seed(8)).half()
    errors = []
    for overrides in ({}, {"errata.E-02": None}):
        use("profile-2026-08", overrides)
        mean = run(lambda t: (t * t).mean(-1), x)
        errors.append((mean / (x.float() ** 2).mean(-1) - 1).abs().mean().item())
    assert errors[0] > 1.2 * errors[1]
