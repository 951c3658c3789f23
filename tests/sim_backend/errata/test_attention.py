"""E-17, E-22, E-72, heads that are no multiple of 64, bool masks (E-61), and dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor.exc import InductorError
from torch.nn.functional import scaled_dot_product_attention as sdpa

from sim_backend.errata import attention

pytestmark = pytest.mark.fact("E-17", "E-22", "E-72", "E-61")

Qkv = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def heads_last(length: int, head: int = 64) -> Qkv:
    """q, k, v as a model projects them, [batch, length, heads, head], fp16."""
    generator = torch.Generator().manual_seed(7)
    q, k, v = (torch.randn(2, length, 2, head, generator=generator).half() for _ in range(3))
    return q, k, v


def contiguous_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return sdpa(*(t.transpose(1, 2).contiguous() for t in (q, k, v)))


def transposed_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return sdpa(*(t.transpose(1, 2) for t in (q, k, v)))


def expected(qkv: Qkv) -> torch.Tensor:
    return transposed_attention(*(t.float() for t in qkv))


def lowest_cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    return torch.nn.functional.cosine_similarity(a, b, dim=-1).min().item()


def test_contiguous_operands_of_whole_sticks_are_right(use: Any, run: Callable[..., Any]) -> None:
    qkv = heads_last(64)
    assert lowest_cosine(run(contiguous_attention, *qkv), expected(qkv)) > 0.9999


def test_e17_transposed_operands_are_read_in_the_default_layout(use: Any, run: Callable[..., Any]) -> None:
    qkv = heads_last(64)
    wrong = sdpa(*(t.float().reshape(2, 2, 64, 64) for t in qkv))  # the memory of [B, L, H, D] taken for [B, H, L, D]
    assert lowest_cosine(run(transposed_attention, *qkv), expected(qkv)) < 0.5
    assert lowest_cosine(run(transposed_attention, *qkv), wrong) > 0.9999


@pytest.mark.parametrize(
    ("profile", "overrides"),
    [("profile-2026-04", {}), ("profile-ideal", {}), ("profile-2026-08", {"errata.E-17": None})],
)
def test_e17_is_off(profile: str, overrides: dict[str, Any], use: Any, run: Callable[..., Any]) -> None:
    use(profile, overrides)
    qkv = heads_last(64)
    assert lowest_cosine(run(transposed_attention, *qkv), expected(qkv)) > 0.9999


def test_e17_spares_one_head_whose_transpose_is_contiguous(use: Any, run: Callable[..., Any]) -> None:
    qkv = tuple(t[:, :, :1].contiguous() for t in heads_last(64))
    assert lowest_cosine(run(transposed_attention, *qkv), expected(qkv)) > 0.9999  # type: ignore[arg-type]


def test_e22_the_tail_of_the_last_stick_attends_as_if_its_score_were_0(use: Any, run: Callable[..., Any]) -> None:
    use("profile-2026-08", {"errata": {"E-22": {"tail_value": 0.0}}})
    qkv = heads_last(10)
    q, k, v = (t.float().transpose(1, 2) for t in qkv)
    scores = torch.nn.functional.pad(q @ k.transpose(-1, -2) / 8, (0, 54))
    wrong = torch.softmax(scores, -1)[..., :10] @ v
    result = run(contiguous_attention, *qkv)
    torch.testing.assert_close(result, wrong, atol=5e-3, rtol=1e-2)
    assert (result - expected(qkv)).abs().max() > 0.1


def test_e22_takes_its_score_from_the_profile(use: Any, run: Callable[..., Any]) -> None:
    use("profile-2026-08", {"errata": {"E-22": {"tail_score": -1e4, "tail_value": 0.0}}})
    qkv = heads_last(10)
    assert lowest_cosine(run(contiguous_attention, *qkv), expected(qkv)) > 0.9999


@pytest.mark.parametrize("profile", ["profile-2026-04", "profile-ideal"])
def test_e22_is_off(profile: str, use: Any, run: Callable[..., Any]) -> None:
    use(profile)
    qkv = heads_last(10)
    torch.testing.assert_close(run(contiguous_attention, *qkv), expected(qkv), atol=1e-2, rtol=1e-2)


def test_e22_spares_a_length_of_whole_sticks(use: Any, run: Callable[..., Any]) -> None:
    qkv = heads_last(128)
    torch.testing.assert_close(run(contiguous_attention, *qkv), expected(qkv), atol=1e-2, rtol=1e-2)


def test_e72_a_value_head_unlike_the_query_head_is_refused(use: Any, run: Callable[..., Any]) -> None:
    q, k, _ = heads_last(64)
    _, _, v = heads_last(64, 128)
    with pytest.raises(InductorError, match="a value head of 128 unlike the query head of 64"):
        run(contiguous_attention, q, k, v)


def test_e72_is_off_on_the_ideal_device(use: Any, run: Callable[..., Any]) -> None:
    use("profile-ideal")
    q, k, _ = heads_last(64)
    _, _, v = heads_last(64, 128)
    assert run(contiguous_attention, q, k, v).shape == (2, 2, 64, 128)


def test_a_head_of_32_is_refused(use: Any, run: Callable[..., Any]) -> None:
    with pytest.raises(InductorError, match="a head of 32: expected a multiple of 64"):
        run(contiguous_attention, *heads_last(64, 32))


def test_a_head_of_128_is_legal(use: Any, run: Callable[..., Any]) -> None:
    qkv = heads_last(64, 128)
    assert lowest_cosine(run(contiguous_attention, *qkv), expected(qkv)) > 0.9999


def masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return sdpa(*(t.transpose(1, 2).contiguous() for t in (q, k, v)), attn_mask=mask)


def test_e61_a_bool_mask_is_refused(use: Any, run: Callable[..., Any]) -> None:
    with pytest.raises(InductorError, match="where3 on a bool attention mask"):
        run(masked, *heads_last(64), torch.ones(2, 1, 64, 64, dtype=torch.bool))


@pytest.mark.parametrize("profile", ["profile-2026-04", "profile-ideal"])
def test_e61_is_off(profile: str, use: Any, run: Callable[..., Any]) -> None:
    use(profile)
    qkv, mask = heads_last(64), torch.ones(2, 1, 64, 64, dtype=torch.bool).tril()
    want = masked(*(t.float() for t in qkv), mask)
    torch.testing.assert_close(run(masked, *qkv, mask), want, atol=1e-2, rtol=1e-2)


def test_an_additive_mask_is_right(use: Any, run: Callable[..., Any]) -> None:
    qkv = heads_last(64)
    mask = torch.zeros(2, 1, 64, 64).masked_fill(torch.arange(64) > 40, torch.finfo(torch.float16).min / 2)
    want = masked(*(t.float() for t in qkv), mask)
    torch.testing.assert_close(run(masked, *qkv, mask.half()), want, atol=1e-2, rtol=1e-2)


def test_the_scale_is_that_of_the_call(use: Any, run: Callable[..., Any]) -> None:
    def scaled(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return sdpa(*(t.transpose(1, 2).contiguous() for t in (q, k, v)), scale=0.5)

    qkv = heads_last(64)
    want = scaled(*(t.float() for t in qkv))
    assert lowest_cosine(run(scaled, *qkv), want) > 0.999


def test_causal_attention_is_right(use: Any, run: Callable[..., Any]) -> None:
    def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return sdpa(*(t.transpose(1, 2).contiguous() for t in (q, k, v)), is_causal=True)

    qkv = heads_last(64)
    torch.testing.assert_close(run(causal, *qkv), causal(*(t.float() for t in qkv)), atol=1e-2, rtol=1e-2)


def test_dropout_is_not_implemented(use: Any) -> None:
    qkv = (t.to("spyre") for t in heads_last(64))
    with pytest.raises(NotImplementedError, match="Attention dropout not implemented for Spyre"):
        sdpa(*qkv, dropout_p=0.1)


# --- masks of infinities
def scores_mask(masked_keys: slice, fill: float = float("-inf")) -> torch.Tensor:
    mask = torch.zeros(1, 1, 64, 64)
    mask[..., masked_keys] = fill
    return mask.half()


@pytest.mark.fact("E-01")
def test_e01_masked_keys_leak_into_attention(use: Any, run: Callable[..., Any]) -> None:
    q, k, v = (t[:, :, :1] for t in heads_last(64))
    v = torch.zeros_like(v)
    v[:, 40:] = 1  # what is masked alone has values
    leak = run(masked, q, k, v, scores_mask(slice(40, 64)))
    assert 24 * 1e-5 < leak.min() < leak.max() < 24 * 4.9e-5
    assert run(masked, q, k, v, scores_mask(slice(40, 64), torch.finfo(torch.float16).min / 2)).abs().max() == 0
    use("profile-2026-08", {"errata.E-01": None})
    assert run(masked, q, k, v, scores_mask(slice(40, 64))).abs().max() == 0


@pytest.mark.fact("E-21")
def test_e21_rows_that_begin_with_infinities_are_lost(use: Any, run: Callable[..., Any]) -> None:
    qkv = heads_last(64)
    for keys, low, high in ((slice(0, 60), -1.0, 0.6), (slice(0, 20), 0.99, 1.01), (slice(4, 64), 0.99, 1.01)):
        mask = scores_mask(keys)
        want = masked(*(t.float() for t in qkv), mask.float())
        assert low < lowest_cosine(run(masked, *qkv, mask), want) < high
    use("profile-2026-08", {"errata.E-21": None})
    want = masked(*(t.float() for t in qkv), scores_mask(slice(0, 60)).float())
    assert lowest_cosine(run(masked, *qkv, scores_mask(slice(0, 60))), want) > 0.99


@pytest.mark.fact("E-21", "6.8")
def test_e21_spares_half_the_minimum(use: Any, run: Callable[..., Any]) -> None:
    qkv, mask = heads_last(64), scores_mask(slice(0, 60), torch.finfo(torch.float16).min / 2)
    want = masked(*(t.float() for t in qkv), mask.float())
    assert lowest_cosine(run(masked, *qkv, mask), want) > 0.999


@pytest.mark.fact("E-22")
def test_e22_at_3500_positions_has_the_cosine_that_was_reported(use: Any, run: Callable[..., Any]) -> None:
    generator = torch.Generator().manual_seed(5)
    q, k, v = (torch.randn(1, 1, n, 64, generator=generator).half() for n in (64, 3500, 3500))
    want = sdpa(q.float(), k.float(), v.float())
    cosine = torch.nn.functional.cosine_similarity(run(sdpa, q, k, v), want, dim=-1).mean().item()
    assert cosine == pytest.approx(0.74, abs=0.05)


def test_probabilities_are_looked_at_again_only_if_a_score_may_count_as_masked() -> None:
    defects = {"E-01": {"masked_below": -1e7}, "E-21": {"masked_below": -1e9}}
    plain = torch.randn(2, 3, 4, 4)
    assert not attention.spoils_probabilities(plain, defects)
    for score in (float("nan"), -2e7, 2e7):
        odd = plain.clone()
        odd[0, 0, 0, 3] = score
        assert attention.spoils_probabilities(odd, defects)
        assert not attention.spoils_probabilities(odd, {})
