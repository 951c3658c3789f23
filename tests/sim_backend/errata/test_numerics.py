"""6.2: each defect on its stimulus as large as reported, gone beside its trigger, and gone in a profile without it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._inductor.exc import InductorError

from sim_backend.compiler import runtime
from sim_backend.errata.eager import apply
from sim_backend.profiles import load_profile

APRIL, AUGUST, SEPTEMBER = "profile-2026-04", "profile-2026-08", "profile-2026-09"


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).half()


def heads(x: torch.Tensor) -> torch.Tensor:
    return x.view(x.shape[0], x.shape[1], -1, 64).transpose(1, 2)


def rms_norm(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def table(x: torch.Tensor) -> torch.Tensor:
    positions = torch.arange(64, device=x.device, dtype=x.dtype)
    angle = torch.outer(positions, torch.exp(positions * -0.14))
    return x + torch.cat((angle.cos(), angle.sin()), dim=-1)


def one_token(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    q = heads(F.linear(x, w)).contiguous()
    return F.scaled_dot_product_attention(q, q, q)


X = normal(64, 128)
PROJECTION = (normal(1, 64, 256), normal(512, 256, seed=1) / 32)


@dataclass(frozen=True)
class Case:
    """`function` of `inputs` is wrong in `on` by `low` to `high`; `beside` is next to the trigger, and right."""

    on: str
    off: str
    function: Callable[..., torch.Tensor]
    inputs: tuple[torch.Tensor, ...]
    low: float
    high: float
    beside: Callable[..., torch.Tensor]
    beside_inputs: tuple[torch.Tensor, ...]


CASES = {
    "E-03": Case(
        AUGUST, "profile-ideal", lambda x: rms_norm(x.transpose(1, 2)).clone(), (normal(2, 64, 16, 128),), 4.0, 8.0,
        lambda x: rms_norm(x.transpose(1, 2).contiguous()).clone(), (normal(2, 64, 16, 128),),
    ),
    "E-04": Case(
        APRIL, AUGUST, lambda x, w: heads(F.linear(x, w)), PROJECTION, 2.0, 4.0,
        lambda x, w: heads(F.linear(x, w)), (normal(1, 1, 256), normal(512, 256, seed=1) / 32),
    ),
    "E-07": Case(
        APRIL, "profile-ideal", one_token, (normal(1, 1, 256), normal(128, 256, seed=1) / 16), 5.0, 8.0,
        one_token, (normal(1, 64, 256), normal(128, 256, seed=1) / 16),
    ),
    "E-12": Case(
        APRIL, AUGUST, lambda x: F.layer_norm(x, (128,)), (X,), 3.0, 5.0,
        lambda x, w: F.layer_norm(x, (128,), w), (X, torch.ones(128).half()),
    ),
    "E-15": Case(
        AUGUST, "profile-ideal", lambda x: rotate_half(x) * 1.0, (normal(1, 8, 64, 128),), 3.0, 7.0,
        lambda x: torch.cat((-x, x), dim=-1) * 1.0, (normal(1, 8, 64, 64),),
    ),
    "E-19": Case(
        AUGUST, "profile-ideal", table, (X,), 0.5, 2.1,
        lambda x, a: x + torch.cat((torch.cos(a), torch.sin(a)), dim=-1), (X, normal(64, 64)),
    ),
    "E-47": Case(
        APRIL, AUGUST, lambda x: F.softplus(x, beta=2.0), (X,), 0.2, 0.5,
        lambda x: F.softplus(x, beta=1.0), (X,),
    ),
}  # fmt: skip


def error(run: Callable[..., Any], function: Callable[..., torch.Tensor], inputs: tuple[torch.Tensor, ...]) -> float:
    expected = function(*(t.float() for t in inputs))
    return float((run(function, *inputs) - expected).abs().max())


@pytest.mark.filterwarnings("ignore::sim_backend.errors.FallbackWarning")
@pytest.mark.parametrize("erratum", [pytest.param(e, marks=pytest.mark.fact(e)) for e in CASES])
def test_a_defect_is_as_large_as_reported_on_its_trigger_alone(erratum: str, use: Any, run: Callable[..., Any]) -> None:
    case = CASES[erratum]
    use(case.on)
    assert case.low < error(run, case.function, case.inputs) < case.high
    assert [t[0] for t in runtime.AUDITS[-1]["triggers"] if t[0] == erratum]
    torch._dynamo.reset()
    assert error(run, case.beside, case.beside_inputs) < 0.05
    assert not [t for t in runtime.AUDITS[-1]["triggers"] if t[0] == erratum]


@pytest.mark.filterwarnings("ignore::sim_backend.errors.FallbackWarning")
@pytest.mark.parametrize("erratum", [pytest.param(e, marks=pytest.mark.fact(e)) for e in CASES])
def test_a_defect_is_gone_in_a_profile_without_it(erratum: str, use: Any, run: Callable[..., Any]) -> None:
    case = CASES[erratum]
    use(case.off)
    assert error(run, case.function, case.inputs) < 0.05


# --- softmax
def masked(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x + mask, -1)


def mask_of(fill: float, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    mask = torch.zeros(1, 128)
    mask[:, 66:] = fill
    return mask.to(dtype)


@pytest.mark.fact("E-01")
def test_e01_masked_positions_keep_a_thousandth_of_the_mass(use: Any, run: Callable[..., Any]) -> None:
    leaks = run(masked, X, mask_of(-math.inf))[:, 66:]
    assert 0.9e-5 < leaks.min() < leaks.max() < 5e-5
    assert leaks.sum(-1).mean().item() == pytest.approx(0.0013, rel=0.1)
    assert torch.equal(leaks, run(masked, X, mask_of(-math.inf))[:, 66:])  # seeded


@pytest.mark.fact("E-01")
def test_e01_masked_positions_leak_in_an_eager_softmax(use: Any) -> None:
    scores = (X + mask_of(-math.inf)).to("spyre")
    assert 0.9e-5 < torch.softmax(scores, -1).cpu()[:, 66:].float().max() < 5e-5


@pytest.mark.fact("E-01")
def test_e01_spares_finite_masks(use: Any, run: Callable[..., Any]) -> None:
    assert run(masked, X, mask_of(torch.finfo(torch.float16).min / 2))[:, 66:].abs().max() == 0


@pytest.mark.fact("E-01")
def test_e01_is_off_without_its_switch(use: Any, run: Callable[..., Any]) -> None:
    use(AUGUST, {"errata.E-01": None})
    assert run(masked, X, mask_of(-math.inf))[:, 66:].abs().max() == 0


@pytest.mark.fact("E-01")
def test_e01_is_asked_and_kept_but_no_prediction(use: Any, run: Callable[..., Any]) -> None:
    run(masked, X, mask_of(0.0))
    (kernel,) = runtime.AUDITS[-1]["kernels"]
    assert [e["applies"] for e in kernel["errata"] if e["id"] == "E-01"] == [True]
    assert not [t for t in runtime.AUDITS[-1]["triggers"] if t[0] == "E-01"]


@pytest.mark.fact("E-20")
def test_e20_two_infinite_masks_are_nan_in_bf16_and_one_is_harmless(use: Any, run: Callable[..., Any]) -> None:
    x, mask = X.bfloat16(), mask_of(-math.inf, torch.bfloat16)
    assert run(lambda x, a, b: torch.softmax(x + (a + b), -1), x, mask, mask).isnan().any()
    torch.testing.assert_close(run(masked, x, mask), masked(x.float(), mask.float()), atol=1e-2, rtol=0)


# --- 16-bit sums
@pytest.mark.fact("E-02", "1.6")
@pytest.mark.parametrize("profile", [APRIL, AUGUST, SEPTEMBER])
def test_e02_loses_more_than_sums_in_fp32_wherever_it_is_on(profile: str, use: Any, run: Callable[..., Any]) -> None:
    x = normal(64, 4096) * torch.exp(normal(4096, seed=1).float()).half()

    def error() -> float:
        exact = rms_norm(x.float())
        return float((run(rms_norm, x) / exact - 1).abs()[x != 0].mean())

    use(profile, {"errata.E-02": None, "errata.E-03": None})
    in_fp32 = error()
    use(profile, {"errata.E-03": None})
    assert error() > 1.1 * in_fp32


@pytest.mark.fact("E-19")
@pytest.mark.filterwarnings("ignore::sim_backend.errors.FallbackWarning")
def test_e19_spares_tables_of_single_operations_whose_fallbacks_are_right(use: Any) -> None:
    """arange, cos and sin run on the CPU, outer and cat are right by themselves: only a graph of them all is wrong."""
    positions = torch.arange(64, device="spyre", dtype=torch.float16)
    angle = torch.outer(positions, torch.linspace(0, 1, 64).half().to("spyre"))
    host = torch.outer(torch.arange(64.0), torch.linspace(0, 1, 64).half().float()).half().float()
    found = torch.cat((angle.cos(), angle.sin()), -1).cpu().float()
    assert (found - torch.cat((host.cos(), host.sin()), -1)).abs().max() < 0.1  # 1/16: the last bit of an angle of 63


# --- norms
@pytest.mark.fact("E-03")
def test_e03_misreads_heads_in_an_eager_norm(use: Any) -> None:
    x = normal(2, 64, 4, 128)
    expected = rms_norm(x.float().transpose(1, 2))
    view = x.to("spyre").transpose(1, 2)
    assert (F.rms_norm(view, (128,), eps=1e-6).cpu().float() - expected).abs().max() > 4
    assert (F.rms_norm(view.contiguous(), (128,), eps=1e-6).cpu().float() - expected).abs().max() < 0.031


@pytest.mark.fact("E-12")
def test_e12_is_the_same_constant_everywhere(use: Any, run: Callable[..., Any]) -> None:
    use(APRIL)
    result = run(lambda x: F.layer_norm(x, (128,)), X)
    assert result.min() == result.max()
    assert result[0, 0].item() == pytest.approx(-0.0013, rel=2e-3)


@pytest.mark.fact("E-13")
def test_e13_a_small_shape_aborts_the_backend_compiler(
    use: Any, run: Callable[..., Any], capfd: pytest.CaptureFixture[str]
) -> None:
    use(APRIL)
    small, weight = normal(2, 10), torch.ones(10).half()
    with pytest.raises(InductorError, match="dxp_standalone"):
        run(lambda x, w: F.layer_norm(x, (10,), w), small, weight)
    assert "data_connect zero_sfp_lrf does not have any producer" in capfd.readouterr().err
    large = normal(2, 64)
    assert error(run, lambda x, w: F.layer_norm(x, (64,), w), (large, torch.ones(64).half())) < 0.05


def near_constant() -> torch.Tensor:
    """Rows of mean 4 to 12 whose variance is a hundred-thousandth of the mean's square."""
    return (torch.linspace(4, 12, 64)[:, None] + normal(64, 768).float() * 0.03).half()


def affine_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:], w)


@pytest.mark.fact("E-14")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_e14_rows_of_nearly_one_value_are_nan(dtype: torch.dtype, use: Any, run: Callable[..., Any]) -> None:
    weight = torch.ones(768)
    rows = run(affine_norm, near_constant().to(dtype), weight.to(dtype)).isnan()
    assert rows.any()
    assert torch.equal(rows.any(-1), rows.all(-1))
    assert not run(affine_norm, normal(64, 768).to(dtype), weight.to(dtype)).isnan().any()


@pytest.mark.fact("E-14")
@pytest.mark.parametrize(("profile", "overrides"), [(APRIL, {}), (AUGUST, {"errata.E-14": None})])
def test_e14_is_off(profile: str, overrides: dict[str, Any], use: Any, run: Callable[..., Any]) -> None:
    use(profile, overrides)
    assert run(affine_norm, near_constant(), torch.ones(768).half()).isfinite().all()


@pytest.mark.fact("E-02")
def test_e02_is_the_switch_of_16_bit_accumulation() -> None:
    assert load_profile(AUGUST).reduction_accumulation == "chunked"
    assert load_profile(APRIL).reduction_accumulation == "serial"
    assert load_profile(AUGUST, {"errata.E-02": None}).reduction_accumulation == "fp32"


# --- single operations
@pytest.mark.fact("E-46")
def test_e46_logarithms_are_finite(use: Any) -> None:
    use(APRIL)
    x = torch.tensor([1.0, -1.0, -8.0]).half().to("spyre")
    result = apply("aten.log.default", (x,), {}, lambda: torch.log(x)).cpu().float()
    torch.testing.assert_close(result, torch.tensor([0.0, 16.1562, 16.1562]), atol=1e-2, rtol=0)


@pytest.mark.fact("E-46")
def test_e46_the_logarithm_of_one_is_not_zero_in_rank_five(use: Any, run: Callable[..., Any]) -> None:
    assert run(torch.log, torch.ones(1, 1, 2, 2, 64).half()).min() > 0
    assert run(torch.log, torch.ones(1, 2, 2, 64).half()).abs().max() == 0
    use(AUGUST, {"errata.E-46": None})
    assert run(torch.log, torch.ones(1, 1, 2, 2, 64).half()).abs().max() == 0


@pytest.mark.fact("E-58")
def test_e58_floor_of_minus_zero_and_ceil_of_zero_are_one_off(use: Any, run: Callable[..., Any]) -> None:
    x = torch.tensor([-0.0, 0.0, 0.5, -0.5] * 16).half()
    assert run(torch.floor, x)[:4].tolist() == [-1, 0, 0, -1]
    assert run(torch.ceil, x)[:4].tolist() == [0, 1, 1, 0]
    use(AUGUST, {"errata.E-58": None})
    assert run(torch.floor, x)[:4].tolist() == [0, 0, 0, -1]


@pytest.mark.fact("E-58", "1.6")
def test_e58_values_that_round_across_an_integer_are_one_off(use: Any, run: Callable[..., Any]) -> None:
    assert run(torch.ceil, torch.tensor([1.001, 2.002] * 32).half())[:2].tolist() == [1, 2]


@pytest.mark.fact("E-09")
def test_e09_native_pow_of_fp32_is_wrong_almost_everywhere(use: Any, run: Callable[..., Any]) -> None:
    base = load_profile(APRIL).to_dict()
    native = {
        "pow_exponents": {"3": "native"}, "loop_ops": [*base["loop_ops"], "pow"], "fp32_ops": [*base["fp32_ops"], "pow"]
    }  # fmt: skip
    use(APRIL, native)
    x = torch.rand(1, 11, 4096, generator=torch.Generator().manual_seed(1)) + 0.5
    wrong = (run(lambda v: v**3, x) - x**3).abs() > 1e-3
    assert wrong.float().mean().item() == pytest.approx(0.941, abs=0.01)
    use(APRIL, {**native, "errata.E-09": None})
    assert (run(lambda v: v**3, x) - x**3).abs().max() < 1e-3


@pytest.mark.fact("E-63")
def test_e63_the_down_projection_of_gte_qwen2_drifts_and_its_neighbour_does_not(
    use: Any, run: Callable[..., Any]
) -> None:
    def cosine(width: int) -> float:
        x, w = normal(1, width) / 8, normal(width, 1536, seed=1) / 8
        result, expected = run(torch.mm, x, w), x.float() @ w.float()
        return float(F.cosine_similarity(result, expected).min())

    assert cosine(8960) < 0.98
    assert cosine(8896) > 0.999
    use(AUGUST, {"errata.E-63": None})
    assert cosine(8960) > 0.999


@pytest.mark.fact("E-06")
def test_e06_is_the_defect_of_november_alone() -> None:
    assert [p for p in ("profile-2025-11", APRIL, AUGUST, SEPTEMBER) if load_profile(p).has("E-06")] == [
        "profile-2025-11"
    ]
