"""Transformer blocks, compiled one by one as adapters do."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor.exc import InductorError

from sim_backend.compiler import runtime, weights
from sim_backend.compiler.weights import cached_weight
from sim_backend.errors import Unsupported


class Block(torch.nn.Module):
    """A post-norm encoder block; `contiguous` q, k and v or the transposed views of stock code."""

    def __init__(self, hidden: int = 128, head: int = 64, contiguous: bool = True) -> None:
        super().__init__()
        self.head, self.contiguous = head, contiguous
        self.query, self.key, self.value, self.output = (torch.nn.Linear(hidden, hidden) for _ in range(4))
        self.up, self.down = torch.nn.Linear(hidden, 4 * hidden), torch.nn.Linear(4 * hidden, hidden)
        self.first, self.second = torch.nn.LayerNorm(hidden), torch.nn.LayerNorm(hidden)

    def split(self, t: torch.Tensor) -> torch.Tensor:
        heads = t.view(t.shape[0], t.shape[1], -1, self.head).transpose(1, 2)
        return heads.contiguous() if self.contiguous else heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (self.split(linear(x)) for linear in (self.query, self.key, self.value))
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = self.first(x + self.output(mixed))
        return self.second(x + self.down(torch.nn.functional.gelu(self.up(x))))


def block(seed: int = 0, **options: Any) -> Block:
    torch.manual_seed(seed)
    return Block(**options).eval().requires_grad_(False)


def hidden(length: int = 64) -> torch.Tensor:
    return torch.randn(2, length, 128, generator=torch.Generator().manual_seed(1))


def on_device(module: torch.nn.Module, dtype: torch.dtype) -> Any:
    return torch.compile(copy.deepcopy(module).to(dtype).to("spyre"), fullgraph=True, dynamic=False)


def lowest_cosine(result: torch.Tensor, expected: torch.Tensor) -> float:
    return torch.nn.functional.cosine_similarity(result.cpu().float(), expected, dim=-1).min().item()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_block_with_heads_of_64_matches_the_cpu(dtype: torch.dtype, use: Any) -> None:
    stock = block()
    result = on_device(stock, dtype)(hidden().to(dtype).to("spyre"))
    assert result.dtype == dtype
    assert lowest_cosine(result, stock(hidden())) > 0.999


def test_a_block_with_heads_of_32_is_refused(use: Any) -> None:
    with pytest.raises(InductorError, match=r"Unexpected stick expression 32\*d2 \+ d3: expected Mod\(var, 64\)") as e:
        on_device(block(head=32), torch.float16)(hidden().half().to("spyre"))
    assert isinstance(e.value.inner_exception, Unsupported)


def test_a_block_in_fp32_is_refused(use: Any) -> None:
    with pytest.raises(InductorError, match=r"batchmatmul on DataFormats\.IEEE_FP32"):
        on_device(block(), torch.float32)(hidden().to("spyre"))


@pytest.mark.parametrize("options", [{}, {"head": 32}, {"contiguous": False}])
def test_on_the_ideal_device_every_block_equals_the_cpu_in_fp32(options: dict[str, Any], use: Any) -> None:
    use("profile-ideal")
    stock = block(**options)
    result = on_device(stock, torch.float32)(hidden(50).to("spyre"))
    torch.testing.assert_close(result.cpu(), stock(hidden(50)), atol=2e-6, rtol=1e-5)


def test_the_ideal_fp16_run_is_closer_than_the_devices(use: Any) -> None:
    stock, x = block(), hidden().half().to("spyre")
    device = on_device(stock, torch.float16)(x).cpu().float()
    use("profile-ideal")
    ideal = on_device(stock, torch.float16)(x).cpu().float()
    expected = stock(hidden())
    assert (ideal - expected).norm() < (device - expected).norm()


def test_stock_code_meets_e17_and_says_so_in_the_audit(use: Any) -> None:
    stock = block(contiguous=False)
    result = on_device(stock, torch.float16)(hidden().half().to("spyre"))
    assert lowest_cosine(result, stock(hidden())) < 0.998
    assert {t[0] for t in runtime.AUDITS[-1]["triggers"]} == {"E-17", "E-18"}


def test_equal_blocks_share_one_compilation(use: Any) -> None:
    before = len(runtime.AUDITS)
    x = hidden().half().to("spyre")
    compiled = [on_device(block(seed), torch.float16) for seed in (0, 1)]
    for module in compiled:
        x = module(x).clone()
    assert len(runtime.AUDITS) == before + 1


def test_weights_are_not_decoded_twice(use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    original = runtime._decoded
    monkeypatch.setattr(runtime, "_decoded", lambda t: calls.append(t.numel()) or original(t))
    compiled, x = on_device(block(), torch.float16), hidden().half().to("spyre")
    compiled(x)
    calls.clear()
    compiled(x)
    assert calls == [x.numel()]


def test_of_a_table_only_the_rows_that_are_looked_up_are_decoded(use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    original = runtime.decode
    monkeypatch.setattr(runtime, "decode", lambda codes: decoded.append(codes.numel()) or original(codes))
    torch.manual_seed(0)
    stock, ids = torch.nn.Embedding(500, 64), torch.tensor([[0, 499, 7], [7, 1, 2]])
    found = on_device(stock.requires_grad_(False), torch.float16)(ids.to("spyre"))
    assert sum(decoded) == ids.numel() * 64
    torch.testing.assert_close(found.cpu().float(), stock(ids), atol=0, rtol=2e-3)


def test_a_changed_weight_is_decoded_again(use: Any) -> None:
    weight = torch.nn.Parameter(torch.ones(4, 64).half().to("spyre"), requires_grad=False)
    assert cached_weight(weight, runtime._decoded).sum() == 256
    weight.mul_(2)
    assert cached_weight(weight, runtime._decoded).sum() == 512


def test_copies_die_with_their_weight(use: Any) -> None:
    before = len(weights._copies)
    weight = torch.nn.Parameter(torch.ones(4, 64).half().to("spyre"), requires_grad=False)
    cached_weight(weight, runtime._decoded)
    assert len(weights._copies) == before + 1
    del weight
    assert len(weights._copies) == before


def test_the_named_backend_does_the_same(use: Any, run: Callable[..., Any]) -> None:
    x = torch.randn(4, 64).half().to("spyre")
    named = torch.compile(lambda v: torch.nn.functional.gelu(v), backend="spyre", fullgraph=True)(x)
    plain = torch.compile(lambda v: torch.nn.functional.gelu(v), fullgraph=True)(x)
    assert torch.equal(named.cpu(), plain.cpu())
