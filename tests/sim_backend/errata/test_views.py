"""E-27 to E-31, E-38, E-50, E-52: indices, views and casts in compiled graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor.exc import InductorError

Run = Callable[..., Any]
aten = torch.ops.aten


def randn(*shape: int, seed: int = 3) -> torch.Tensor:
    """Values that DL16 holds exactly."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randint(-256, 256, shape, generator=generator) / 64).half()


def compiled(function: Callable[..., Any], *arguments: torch.Tensor) -> Any:
    return torch.compile(function, fullgraph=True, dynamic=False)(*arguments)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.cpu().float(), b.cpu().float())


# --- E-27
def page(pages: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return aten.index.Tensor(pages, [index])


@pytest.mark.fact("E-27")
@pytest.mark.parametrize("profile", ["profile-2026-08", "profile-2026-09"])
def test_e27_a_0_dim_index_reads_the_first_page(profile: str, use: Any, run: Run) -> None:
    use(profile)
    pages = randn(8, 16, 64)
    assert same(run(page, pages, torch.tensor(3)), pages[0])


@pytest.mark.fact("E-27")
def test_e27_spares_a_one_element_index_and_an_eager_one(use: Any, run: Run) -> None:
    pages = randn(8, 16, 64)
    assert same(run(page, pages, torch.tensor([3])), pages[3:4])
    assert same(pages.to("spyre")[torch.tensor(3).to("spyre")], pages[3])


@pytest.mark.fact("E-27", "E-31")
def test_e27_a_page_taken_in_a_compiled_function_is_page_0(use: Any) -> None:
    pages = randn(8, 16, 64)
    function = torch.compile(lambda p, i: p[i] + 0.0, dynamic=False)
    assert same(function(pages.to("spyre"), torch.tensor(3).to("spyre")), pages[0])


@pytest.mark.fact("E-27")
@pytest.mark.parametrize(("profile", "overrides"), [("profile-ideal", {}), ("profile-2026-08", {"errata.E-27": None})])
def test_e27_is_off(profile: str, overrides: dict[str, Any], use: Any, run: Run) -> None:
    use(profile, overrides)
    pages = randn(8, 16, 64)
    assert same(run(page, pages, torch.tensor(3)), pages[3])


# --- E-28
def written(dim: int) -> Callable[..., torch.Tensor]:
    return lambda cache, index, rows: cache.index_copy_(dim, index, rows)


CACHE, ROWS, PLACES = (4, 8, 128), (4, 2, 128), torch.tensor([5, 2])


@pytest.mark.fact("E-28")
def test_e28_rows_of_an_inner_dimension_land_elsewhere(use: Any, run: Run) -> None:
    cache, rows = randn(8, 128), randn(2, 128, seed=4)
    result = run(written(0), cache, PLACES, rows)
    right = cache.index_copy(0, PLACES, rows).float()
    wrong_rows = (result != right).any(-1)
    assert wrong_rows.any()
    assert sorted(result.flatten().tolist()) != sorted(cache.float().flatten().tolist())


@pytest.mark.fact("E-28", "2.2")
def test_e28_spares_the_dimension_that_is_outermost_on_the_device(use: Any, run: Run) -> None:
    cache, rows = randn(*CACHE), randn(*ROWS, seed=4)
    assert same(run(written(1), cache, PLACES, rows), cache.index_copy(1, PLACES, rows))
    flat, narrow = randn(8, 64), randn(2, 64, seed=4)  # one stick a row: nothing lies outside of the rows
    assert same(run(written(0), flat, PLACES, narrow), flat.index_copy(0, PLACES, narrow))


@pytest.mark.fact("E-28")
@pytest.mark.parametrize("profile", ["profile-2026-09", "profile-ideal"])
def test_e28_is_off(profile: str, use: Any, run: Run) -> None:
    use(profile)
    cache, rows = randn(8, 128), randn(2, 128, seed=4)
    assert same(run(written(0), cache, PLACES, rows), cache.index_copy(0, PLACES, rows))


# --- E-29
@pytest.mark.fact("E-29")
def test_e29_two_gathers_in_one_graph_are_wrong_by_the_same_index_and_by_two(use: Any, run: Run) -> None:
    x, y, i, j = randn(128, 256), randn(128, 256, seed=4), torch.tensor([1, 2, 3]), torch.tensor([7, 9, 11])
    assert not same(run(lambda a, b, m: a[m] + b[m], x, y, i), x[i] + y[i])
    assert not same(run(lambda a, m, n: a[m] + a[n], x, i, j), x[i] + x[j])


@pytest.mark.fact("E-29")
def test_e29_spares_one_gather_and_gathers_in_two_graphs(use: Any, run: Run) -> None:
    x, i, j = randn(128, 256), torch.tensor([1, 2, 3]), torch.tensor([7, 9, 11])
    assert same(run(lambda a, m: a[m] * 2, x, i), x[i] * 2)
    assert same(run(lambda a, n: a[n], x, j), x[j])


@pytest.mark.fact("E-29", "7.7")
def test_e29_spares_several_embedding_lookups(use: Any, run: Run) -> None:
    words, places, ids = randn(32, 64), randn(32, 64, seed=5), torch.tensor([[4, 1, 9]])

    def both(a: torch.Tensor, b: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding(i, a) + torch.nn.functional.embedding(i, b)

    assert same(run(both, words, places, ids), words[ids] + places[ids])


@pytest.mark.fact("E-29", "3.7")
def test_e29_an_index_step_beyond_the_immediate_aborts(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    experts = torch.empty(4, 512, 2048, dtype=torch.float16, device="spyre")  # 2 MB an expert, as in #3499
    with pytest.raises(InductorError, match="SIGABRT"):
        compiled(lambda w, i: w[i], experts, torch.zeros(2, 2, dtype=torch.int64).to("spyre"))
    assert "Immediate value out of boundary in instruction: L3_ADDEARIMM" in capfd.readouterr().err


@pytest.mark.fact("E-29")
def test_e29_a_step_just_inside_the_immediate_is_right(use: Any, run: Run) -> None:
    experts = randn(2, 8191, 128)  # 2^21 - 256 bytes
    index = torch.tensor([1])
    assert same(run(lambda w, i: w[i], experts, index), experts[index])


@pytest.mark.fact("E-29")
def test_e29_a_cache_beyond_one_core_is_refused(use: Any) -> None:
    cache = torch.empty(1 << 20, 192, dtype=torch.float16, device="spyre")  # 384 MB
    with pytest.raises(InductorError, match="does not support: gather from an operand of 384 MB on one core"):
        compiled(lambda c, i: c[i], cache, torch.zeros(4, dtype=torch.int64).to("spyre"))


@pytest.mark.fact("E-29")
@pytest.mark.parametrize("profile", ["profile-2026-04", "profile-ideal"])
def test_e29_is_off(profile: str, use: Any, run: Run) -> None:
    use(profile, {"ops": {"aten.index.Tensor": "X / N"}})
    x, y, index = randn(128, 256), randn(128, 256), torch.tensor([1, 2, 3])
    assert same(run(lambda a, b, i: a[i] + b[i], x, y, index), x[index] + y[index])


# --- E-30
@pytest.mark.fact("E-30")
def test_e30_is_fixed_in_august_and_was_an_abort_before(use: Any, run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    table, index = randn(8, 64), torch.tensor([3])

    def pick(t: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding(i, t)

    assert same(run(pick, table, index), table[3:4])
    use("profile-2026-08", {"errata.E-30": {}})
    with pytest.raises(InductorError, match="SIGABRT"):
        run(pick, table, index)
    assert "There must be at least one valid candidate." in capfd.readouterr().err
    assert same(run(pick, table, torch.tensor([3, 1])), table[[3, 1]])


# --- E-31
@pytest.mark.fact("E-31", "2.4")
@pytest.mark.parametrize("profile", ["profile-2026-04", "profile-2026-08", "profile-2026-09"])
def test_e31_an_offset_view_as_a_graph_input_is_read_from_element_0(profile: str, use: Any) -> None:
    use(profile)
    base = randn(9, 128)
    assert same(compiled(lambda x: x + x, base.to("spyre")[3:]), 2 * base[:6])


@pytest.mark.fact("E-31")
def test_e31_a_view_with_step_2_loses_its_offset(use: Any) -> None:
    rows = torch.arange(9.0).half().unsqueeze(1).expand(9, 128).contiguous().to("spyre")
    assert compiled(lambda x: x + x, rows[1::2]).cpu()[:, 0].tolist() == [0.0, 4.0, 8.0, 12.0]  # as in #2803
    torch._dynamo.reset()
    assert compiled(lambda x: x[1::2] + x[1::2], rows).cpu()[:, 0].tolist() == [0.0, 4.0, 8.0, 12.0]


@pytest.mark.fact("E-31")
def test_e31_writes_go_to_element_0_as_well(use: Any) -> None:
    held = torch.zeros(6, 64).half().to("spyre")

    def fill(x: torch.Tensor) -> None:
        x.copy_(torch.ones_like(x))

    compiled(fill, held[4:])
    assert held.cpu()[:, 0].tolist() == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]


@pytest.mark.fact("E-31")
def test_e31_follows_the_view_of_each_call_without_compiling_again(use: Any) -> None:
    base = randn(9, 128).to("spyre")
    double = torch.compile(lambda x: x + x, fullgraph=True, dynamic=False)
    first = double(base[:3])
    assert same(double(base[6:]), first)


@pytest.mark.fact("E-31")
def test_e31_spares_gaps_slices_inside_the_graph_and_clones(use: Any) -> None:
    base = randn(9, 128)
    held = base.to("spyre")
    assert same(compiled(lambda x: x + x, held[::2]), 2 * base[::2])
    torch._dynamo.reset()
    assert same(compiled(lambda x: x[3:] + x[3:], held), 2 * base[3:])
    torch._dynamo.reset()
    assert same(compiled(lambda x: x + x, held[3:].clone()), 2 * base[3:])


@pytest.mark.fact("E-31")
@pytest.mark.parametrize(("profile", "overrides"), [("profile-ideal", {}), ("profile-2026-08", {"errata.E-31": None})])
def test_e31_is_off(profile: str, overrides: dict[str, Any], use: Any) -> None:
    use(profile, overrides)
    base = randn(9, 128)
    assert same(compiled(lambda x: x + x, base.to("spyre")[1::2]), 2 * base[1::2])
    torch._dynamo.reset()
    assert same(compiled(lambda x: x[1::2] + x[1::2], base.to("spyre")), 2 * base[1::2])


# --- E-38
CASTS = {"ops": {"aten._to_copy": "X / N"}}  # the table of 2026-04 refuses every cast, which comes first


def cast(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.bfloat16)


@pytest.mark.fact("E-38", "3.6")
def test_e38_a_partial_stick_is_not_converted(use: Any, run: Run) -> None:
    use("profile-2026-04", CASTS)
    result = run(cast, torch.ones(4, 70).half())
    assert result[:, :64].eq(1).all()
    assert result[:, 64:].eq(0).all()


@pytest.mark.fact("E-38", "3.6")
def test_e38_spares_whole_sticks(use: Any, run: Run) -> None:
    use("profile-2026-04", CASTS)
    assert run(cast, torch.ones(4, 128).half()).eq(1).all()


@pytest.mark.fact("E-38", "3.6")
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_e38_casts_are_refused_at_the_end_of_april(dtype: torch.dtype, use: Any, run: Run) -> None:
    use("profile-2026-04")
    with pytest.raises(InductorError, match="Unsupported: Spyre backend does not support"):
        run(cast, torch.ones(4, 128, dtype=dtype))


@pytest.mark.fact("E-38")
@pytest.mark.parametrize("profile", ["profile-2026-08", "profile-2026-09", "profile-ideal"])
def test_e38_is_off(profile: str, use: Any, run: Run) -> None:
    use(profile)
    assert run(cast, torch.ones(4, 70).half()).eq(1).all()
    assert run(cast, torch.ones(4, 64)).eq(1).all()


# --- E-50
@pytest.mark.fact("E-50")
@pytest.mark.filterwarnings("ignore:.*falling back to cpu")
def test_e50_diff_by_cpu_slices_is_zero(use: Any, run: Run) -> None:
    use("profile-2026-04")
    assert not run(lambda t: torch.diff(t, dim=0), randn(5, 128)).any()
    assert not run(torch.diff, randn(5, 65)).any()


@pytest.mark.fact("E-50")
@pytest.mark.filterwarnings("ignore:.*falling back to cpu")
def test_e50_spares_other_differences(use: Any, run: Run) -> None:
    use("profile-2026-04")
    x, y = randn(5, 128), randn(5, 128, seed=9)
    assert same(run(lambda a, b: a[1:] - b[1:], x, y), x[1:] - y[1:])


@pytest.mark.fact("E-50")
def test_e50_is_off_where_slices_are_views(use: Any, run: Run) -> None:
    x = randn(5, 128)
    assert same(run(lambda t: torch.diff(t, dim=0), x), x.diff(dim=0))


# --- E-52
@pytest.mark.fact("E-52")
@pytest.mark.parametrize("profile", ["profile-2026-08", "profile-2026-09"])
def test_e52_mul_in_place_on_a_strided_tensor_does_not_compile(profile: str, use: Any) -> None:
    use(profile)
    x = randn(64, 64).to("spyre")
    with pytest.raises(InductorError, match=r"mutation op aten.mul_ .*cannot restickify"):
        compiled(lambda t: t.mul_(2.0), x.t())
    torch._dynamo.reset()
    with pytest.raises(InductorError, match=r"mutation op aten.mul_ .*cannot restickify"):
        compiled(lambda t: t.t().mul_(2.0), x)


@pytest.mark.fact("E-52")
def test_e52_spares_contiguous_tensors_and_products_out_of_place(use: Any) -> None:
    host = randn(64, 64)
    assert same(compiled(lambda t: t.mul_(2.0), host.to("spyre")), 2 * host)
    torch._dynamo.reset()
    assert same(compiled(lambda t: t.t() * 2.0, host.to("spyre")), 2 * host.t())


@pytest.mark.fact("E-52", "4.9")
def test_e52_a_copy_into_a_narrow_whose_offset_is_symbolic_raises_and_a_constant_one_does_not(use: Any) -> None:
    def write(x: torch.Tensor, rows: torch.Tensor, at: int) -> torch.Tensor:
        x = x + 0
        x.narrow(0, at, 2).copy_(rows)
        return x

    x, rows = torch.zeros(8, 64).half().to("spyre"), torch.ones(2, 64).half().to("spyre")
    constant = torch.compile(write, fullgraph=True, dynamic=False)(x, rows, 2)
    assert constant.cpu().sum(1).tolist() == [0, 0, 64, 64, 0, 0, 0, 0]
    torch._dynamo.reset()
    with pytest.raises(InductorError, match="shape error in scatter op, can not broadcast"):
        torch.compile(write, fullgraph=True, dynamic=True)(x, rows, 2)
    torch._dynamo.reset()
    with pytest.raises(InductorError, match=r"Spyre backend does not support: a symbolic offset in aten\.slice"):
        torch.compile(lambda x, at: x.narrow(0, at, 2) * 2, fullgraph=True, dynamic=True)(x, 2)  # only read


@pytest.mark.fact("E-52")
def test_e52_index_add_in_place_is_unimplemented(use: Any, run: Run) -> None:
    x, index, rows = randn(8, 64), torch.tensor([2, 0, 1]), randn(3, 64, seed=6)
    with pytest.raises(InductorError, match="Could not run 'aten::index_add_'"):
        run(lambda t, i, s: t.index_add_(0, i, s), x, index, rows)
    with pytest.raises(NotImplementedError, match="Could not run 'aten::index_add"):
        x.to("spyre").index_add_(0, index.to("spyre"), rows.to("spyre"))


@pytest.mark.fact("3.2")
def test_index_add_out_of_place_takes_unique_indices_only(use: Any, run: Run) -> None:
    x, rows = randn(8, 64), randn(3, 64, seed=6)
    unique, double = torch.tensor([2, 0, 1]), torch.tensor([2, 2, 1])

    def add(t: torch.Tensor, i: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        return t.index_add(0, i, s)

    torch.testing.assert_close(
        run(add, x, unique, rows), x.float().index_add(0, unique, rows.float()), rtol=4e-3, atol=0
    )
    assert not same(run(add, x, double, rows), x.index_add(0, double, rows))


@pytest.mark.fact("E-52")
@pytest.mark.parametrize(("profile", "overrides"), [("profile-ideal", {}), ("profile-2026-08", {"errata.E-52": None})])
def test_e52_is_off(profile: str, overrides: dict[str, Any], use: Any, run: Run) -> None:
    use(profile, overrides)
    host = randn(64, 64)
    assert same(compiled(lambda t: t.mul_(2.0), host.to("spyre").t()), 2 * host.t())
    x, index, rows = torch.zeros(8, 64).half(), torch.tensor([2, 0, 1]), randn(3, 64, seed=6)
    assert same(run(lambda t, i, s: t.index_add_(0, i, s), x, index, rows), x.index_add(0, index, rows))
