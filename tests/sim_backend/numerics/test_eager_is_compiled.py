"""Eager operations are compiled ones (facts 3.1): both paths give the same bits under every policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from sim_backend import numerics
from sim_backend.device import eager, ext
from sim_backend.errata.eager import apply
from sim_backend.numerics import Rounding
from sim_backend.profiles import Profile, load_profile

pytestmark = pytest.mark.fact("3.1", "1.6")

GENERATOR = torch.Generator().manual_seed(11)
A = torch.randn(6, 200, generator=GENERATOR).half()
B = torch.randn(6, 200, generator=GENERATOR).half()
P = A.abs() + 0.1
W = (torch.randn(64, 200, generator=GENERATOR) / 11).half()
V = torch.randn(200, generator=GENERATOR).half()
C = torch.randn(64, generator=GENERATOR).half()
INTEGERS = torch.randint(-(2**15), 2**15, (6, 64), generator=GENERATOR)

Operation = Callable[..., Tensor]
GROUPS: dict[str, tuple[tuple[Tensor, ...], dict[str, Operation]]] = {
    "two operands": (
        (A, B, P),
        {
            "add": lambda a, b, p: a + b,
            "add with alpha": lambda a, b, p: torch.add(a, b, alpha=0.3),
            "sub": lambda a, b, p: a - b,
            "sub with alpha": lambda a, b, p: torch.sub(a, b, alpha=2.3),
            "mul": lambda a, b, p: a * b,
            "div": lambda a, b, p: a / p,
            "maximum": lambda a, b, p: torch.maximum(a, b),
            "minimum": lambda a, b, p: torch.minimum(a, b),
            "where": lambda a, b, p: torch.where(a > b, a, b),
            "where below a constant": lambda a, b, p: torch.where(a < 0.1, a, b),
            "clamp by tensors": lambda a, b, p: torch.clamp(a, -p, p),
        },
    ),
    "a constant": (
        (A, P),
        {
            "add": lambda a, p: a + 0.1,
            "add with alpha": lambda a, p: torch.add(a, 0.1, alpha=0.3),
            "sub": lambda a, p: a - 0.1,
            "rsub": lambda a, p: 0.1 - a,
            "mul": lambda a, p: a * 0.1,
            "div": lambda a, p: a / 0.3,
            "a constant over": lambda a, p: 0.3 / p,
            "clamp": lambda a, p: a.clamp(-0.3, 0.7),
            "clamp_max": lambda a, p: a.clamp_max(0.1),
            "square": lambda a, p: a**2,
        },
    ),
    "one operand": (
        (A, P),
        {
            "neg": lambda a, p: -a,
            "abs": lambda a, p: a.abs(),
            "exp": lambda a, p: a.exp(),
            "log": lambda a, p: p.log(),
            "sqrt": lambda a, p: p.sqrt(),
            "rsqrt": lambda a, p: p.rsqrt(),
            "reciprocal": lambda a, p: p.reciprocal(),
            "relu": lambda a, p: a.relu(),
            "sigmoid": lambda a, p: a.sigmoid(),
            "tanh": lambda a, p: a.tanh(),
            "silu": lambda a, p: F.silu(a),
            "softplus": lambda a, p: F.softplus(a),
            "softplus with beta": lambda a, p: F.softplus(a, 2.3, 10.0),
            "mish": lambda a, p: F.mish(a),
            "floor": lambda a, p: a.floor(),
            "ceil": lambda a, p: a.ceil(),
            "sign": lambda a, p: a.sign(),
        },
    ),
    "reductions": (
        (A,),
        {
            "sum of all": lambda a: a.sum(),
            "sum of rows": lambda a: a.sum(-1),
            "sum of columns": lambda a: a.sum(0),
            "sum of both": lambda a: a.sum((0, 1), keepdim=True),
            "mean of all": lambda a: a.mean(),
            "mean of rows": lambda a: a.mean(-1, keepdim=True),
            "mean of columns": lambda a: a.mean(0),
            "amax": lambda a: a.amax(-1),
            "amin": lambda a: a.amin(-1),
            "max": lambda a: a.max(),
            "prod of columns": lambda a: a.prod(0),
            "softmax": lambda a: a.softmax(-1),
            "softmax of columns": lambda a: a.softmax(0),
            "log_softmax": lambda a: a.log_softmax(-1),
            "vector_norm": lambda a: torch.linalg.vector_norm(a, dim=-1),
            "sum in fp32": lambda a: a.sum(-1, dtype=torch.float32),
        },
    ),
    "products and norms": (
        (A, W, C, V),
        {
            "mm": lambda a, w, c, v: a @ w.t(),
            "linear": lambda a, w, c, v: F.linear(a, w, c),
            "linear of three dimensions": lambda a, w, c, v: F.linear(a[None], w, c),
            "addmm with factors": lambda a, w, c, v: torch.addmm(c, a, w.t(), alpha=0.3, beta=2),
            "layer_norm": lambda a, w, c, v: F.layer_norm(a, (200,), v, v),
            "layer_norm without weight": lambda a, w, c, v: F.layer_norm(a, (200,)),
            "rms_norm": lambda a, w, c, v: F.rms_norm(a, (200,), v),
            "rms_norm without weight": lambda a, w, c, v: F.rms_norm(a, (200,), None, 1e-6),
        },
    ),
    "fp32": (
        (A.float(),),
        {
            "add": lambda a: a + 0.1,
            "sum": lambda a: a.sum(-1),
            "mean": lambda a: a.mean(-1),
            "softmax": lambda a: a.softmax(-1),
            "layer_norm": lambda a: F.layer_norm(a, (200,)),
        },
    ),
    "integers": (
        (INTEGERS, INTEGERS.flip(0)),
        {
            "add": lambda i, j: i + j,
            "sub": lambda i, j: i - j,
            "mul": lambda i, j: i * j,
            "maximum": lambda i, j: torch.maximum(i, j),
            "minimum": lambda i, j: torch.minimum(i, j),
        },
    ),
}
# E-02 is the accumulation itself, which is what these tests choose.
WITHOUT_ERRATA = {
    "errata": dict.fromkeys(e for e in load_profile().errata if e != "E-02"),
    "limits.legal_sticks": False,
}
POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chunks": ("profile-2026-08", {}),
    "serial": ("profile-2026-08", {"numerics.reduction_accumulation": "serial"}),
    "fp32 sums": ("profile-2026-08", {"numerics.reduction_accumulation": "fp32"}),
    "nearest even": ("profile-2026-08", {"numerics.op_rounding": "nearest_even"}),
    "truncate": ("profile-2026-08", {"numerics.op_rounding": "truncate"}),
    "products in chunks": ("profile-2026-08", {"numerics.matmul_accumulation": "chunked"}),
    "serial products": ("profile-2026-08", {"numerics.matmul_accumulation": "serial"}),
    "latest": ("profile-2026-09", {}),
}


@pytest.fixture
def both(use: Callable[..., Profile]) -> Iterator[Callable[..., Profile]]:
    """Choose one profile for the compiler and for eager calls."""

    def choose(name: str, overrides: dict[str, Any]) -> Profile:
        profile = use(name, {**WITHOUT_ERRATA, **overrides})
        adopt(profile)
        return profile

    yield choose
    adopt(load_profile())


def adopt(profile: Profile) -> None:
    rounding = Rounding[profile.op_rounding.upper()]
    eager.install(profile, apply)
    ext.set_op_rounding(rounding)
    numerics.set_op_rounding(rounding)


def codes(t: Tensor) -> Tensor:
    """The bits in device memory, NaN as one code."""
    bits = ext.cpu_alias(t).clone()
    merged = (
        (bits.to(torch.int32) & 0x7FFF) == 0x7FFF if bits.dtype == torch.int16 else torch.zeros(1, dtype=torch.bool)
    )
    return bits.masked_fill(merged, 0x7FFF) if bits.dtype == torch.int16 else bits


@pytest.mark.parametrize(
    ("policy", "group"),
    [
        (p, g)
        for p in POLICIES
        for g in GROUPS
        if p == "chunks" or g == "products and norms" or (g in ("reductions", "a constant") and "products" not in p)
    ],
)
def test_an_eager_call_has_the_bits_of_its_compiled_form(policy: str, group: str, both: Any) -> None:
    both(*POLICIES[policy])
    host, operations = GROUPS[group]
    device = [t.to("spyre") for t in host]
    together = torch.compile(
        lambda *args: tuple(operation(*args) for operation in operations.values()), fullgraph=True, dynamic=False
    )(*device)
    different = [
        name
        for (name, operation), compiled in zip(operations.items(), together, strict=True)
        if not torch.equal(codes(operation(*device)), codes(compiled))
    ]
    assert different == []


def test_accumulation_and_rounding_policies_change_eager_results(both: Any) -> None:
    results = {}
    for policy, (name, overrides) in POLICIES.items():
        both(name, overrides)
        results[policy] = tuple(codes(A.to("spyre").sum(-1)).tolist())
    of_products = {"products in chunks", "serial products"}
    assert results["chunks"] == results["latest"]
    assert {results[name] for name in of_products} == {results["chunks"]}
    assert len(set(results.values())) == len(POLICIES) - 1 - len(of_products)


def test_accumulation_of_products_changes_products_and_attention(both: Any, run: Callable[..., Any]) -> None:
    heads = torch.randn(1, 2, 64, 64, generator=torch.Generator().manual_seed(2)).half()
    found: dict[str, tuple[Any, ...]] = {}
    for policy in ("fp32", "chunked", "serial"):
        both("profile-2026-08", {"numerics.matmul_accumulation": policy, "numerics.matmul_chunk": 16})
        product, attended = A.to("spyre") @ W.t().to("spyre"), run(F.scaled_dot_product_attention, heads, heads, heads)
        found[policy] = (tuple(codes(product).flatten().tolist()), tuple(attended.flatten().tolist()))
    assert len({product for product, _ in found.values()}) == 3
    assert len({attended for _, attended in found.values()}) == 3


def batched(batch: Tensor, left: Tensor, right: Tensor) -> Tensor:
    return torch.baddbmm(batch, left, right, beta=0.5, alpha=2)


def scaled(left: Tensor, right: Tensor, scale: Tensor) -> Tensor:
    return torch._scaled_mm(left, right.t(), scale, scale, out_dtype=torch.float16)


BATCHES = tuple(torch.randn(2, 64, 64, generator=torch.Generator().manual_seed(n)).half() for n in range(3))
FP8 = tuple(torch.randn(64, 128, generator=torch.Generator().manual_seed(n)).to(torch.float8_e4m3fn) for n in (3, 4))


@pytest.mark.parametrize(
    ("profile", "function", "host"),
    [("profile-2025-11", batched, BATCHES), ("profile-2026-09", scaled, (*FP8, torch.tensor(0.5)))],
)
def test_accumulation_of_products_reaches_every_eager_product(
    profile: str, function: Operation, host: tuple[Tensor, ...], both: Any
) -> None:
    found = {}
    for policy in ("fp32", "chunked", "serial"):
        both(profile, {"numerics.matmul_accumulation": policy, "numerics.matmul_chunk": 16})
        found[policy] = function(*(t.to("spyre") for t in host)).cpu().float()
    exact = function(*(t.double() for t in host)) if function is batched else host[0].float() @ host[1].float().t() / 4
    errors = [float((result - exact).abs().max()) for result in found.values()]
    assert 0 < errors[0] < errors[1] < errors[2] < 1


@pytest.mark.parametrize("policy", ["fp32", "chunked", "serial"])
def test_an_eager_fp8_product_has_the_bits_of_its_compiled_form(policy: str, both: Any) -> None:
    both("profile-2026-09", {"numerics.matmul_accumulation": policy})
    device = [t.to("spyre") for t in (*FP8, torch.tensor(0.5))]
    assert torch.equal(codes(scaled(*device)), codes(torch.compile(scaled, fullgraph=True, dynamic=False)(*device)))


def test_a_serial_sum_stops_growing_where_the_next_element_is_below_half_a_step(both: Any) -> None:
    ones = torch.ones(2000, dtype=torch.float16).to("spyre")
    both("profile-2026-08", {"numerics.reduction_accumulation": "serial", "numerics.op_rounding": "nearest_even"})
    assert ones.sum().item() == 1024.0
    both("profile-2026-08", {})
    assert ones.sum().item() == 2000.0


@pytest.mark.parametrize(("name", "product"), [("profile-2026-08", 16785408), ("profile-2026-09", 16785409)])
def test_integer_products_are_exact_to_2_24_until_the_native_operation(name: str, product: int, both: Any) -> None:
    both(name, {})
    odd = torch.tensor([4097], dtype=torch.int64).to("spyre")
    assert (odd * odd).cpu().tolist() == [product]
    compiled = torch.compile(lambda x: x * x, fullgraph=True, dynamic=False)(odd)
    assert compiled.cpu().tolist() == [product]


def test_scalars_of_eager_calls_are_constants_of_the_compiler(both: Any) -> None:
    both("profile-2026-08", {})
    zero = torch.zeros(2, dtype=torch.float16).to("spyre")
    assert ext.to_compute(zero + 0.1).tolist() == [numerics.round_constant(0.1)] * 2
    assert ext.to_compute(zero - math.inf).tolist() == [numerics.round_constant(-math.inf)] * 2
