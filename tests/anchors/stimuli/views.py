"""Facts 6.4: views, offsets and copies; E-34 and E-05 of the same kind."""

from __future__ import annotations

import torch
from anchors.published import Raises, Right, Wrong
from anchors.stimulus import APR, AUG, SEP, Pair, both, both_eagerly, compiled, normal, stimulus, there
from torch import Tensor

REFUSED = Raises("Exception", "Spyre backend does not support|dxp_standalone|unimplemented|Could not run")


def _page(index: Tensor) -> Pair:
    return both(lambda pages, i: pages[i] + 0.0, normal(8, 64, 128), index)


@stimulus("E-27", published={AUG: Wrong(), SEP: Wrong()})
def page_by_a_zero_dim_index() -> Pair:
    return _page(torch.tensor(5))


@stimulus("E-27", published={AUG: Right(0.01), SEP: Right(0.01)})
def page_by_a_one_element_index() -> Pair:
    return _page(torch.tensor([5]))


def _index_copy(dim: int) -> Pair:
    source = normal(*((4, 64, 128) if dim == 0 else (64, 4, 128)), seed=1)
    target = normal(64, 64, 128)
    rows = torch.tensor([3, 9, 17, 40])
    return both(lambda t, i, s: torch.index_copy(t, dim, i, s), target, rows, source)


# #3705 is closed; the probe that failed on 2026-08-22 is of August's build (sim_backend/errata/catalogue/views.yaml).
@stimulus("E-28", published={AUG: Wrong(), SEP: Right(0.002)})
def index_copy_on_an_inner_device_dim() -> Pair:
    return _index_copy(0)


@stimulus("E-28", published={AUG: Right(0.002), SEP: Right(0.002)})
def index_copy_on_the_outermost_device_dim() -> Pair:
    return _index_copy(1)


@stimulus(
    "E-29",
    published={
        AUG: Raises("Exception", "Spyre backend does not support|dxp_standalone"),
        SEP: Raises("Exception", "Spyre backend does not support|dxp_standalone"),
    },
)
def gather_from_a_gigabyte() -> Pair:
    cache = torch.empty(4099, 131072, dtype=torch.float16, device="spyre")
    return torch.compile(lambda c, i: c[i], dynamic=False)(cache, torch.tensor([5, 7]).to("spyre")), torch.zeros(
        2, 131072
    )


@stimulus("E-29", published={AUG: Wrong(), SEP: Wrong()})
def two_gathers_in_one_graph() -> Pair:
    rows = torch.tensor([3, 9, 17, 40])
    return both(lambda a, b, i: a[i] + b[i], normal(64, 128), normal(64, 128, seed=1), rows)


@stimulus("E-29", published={AUG: Right(0.002), SEP: Right(0.002)})
def one_gather_in_a_graph() -> Pair:
    return both(lambda a, i: a[i], normal(64, 128), torch.tensor([3, 9, 17, 40]))


def _of_view(view: Tensor, expected: Tensor) -> Pair:
    return torch.compile(lambda x: x * 2, dynamic=False)(view), expected * 2


@stimulus("E-31", published={p: Wrong() for p in (APR, AUG, SEP)})
def graph_input_with_an_offset() -> Pair:
    x = normal(128, 64)
    return _of_view(there(x).as_strided((64, 64), (64, 1), 4096), x[64:])


@stimulus("E-31", published={p: Right(0.01) for p in (APR, AUG, SEP)})
def graph_input_with_an_offset_is_read_from_element_zero() -> Pair:
    x = normal(128, 64)
    return _of_view(there(x).as_strided((64, 64), (64, 1), 4096), x[:64])


@stimulus("E-31", published={p: Right(0.01) for p in (APR, AUG, SEP)})
def graph_input_without_an_offset() -> Pair:
    x = normal(128, 64)
    return _of_view(there(x).as_strided((64, 64), (64, 1), 0), x[:64])


@stimulus("E-31", "E-33", "2.4", published={AUG: Right(0.01), SEP: Right(0.01)})
def eager_view_with_an_offset() -> Pair:
    return both_eagerly(lambda x: x[64:] * 2, normal(128, 64))


def _write_view() -> tuple[Tensor, Tensor]:
    target = there(torch.zeros(128, 64))
    target.as_strided((64, 64), (64, 1), 4096).copy_(torch.ones(64, 64).half())
    return target, torch.cat((torch.zeros(64, 64), torch.ones(64, 64)))


@stimulus("E-33", published={APR: Wrong(), AUG: Right(0), SEP: Right(0)})
def copy_into_a_view() -> Pair:
    return _write_view()


@stimulus("E-33", published={APR: Right(0)})
def copy_into_a_view_writes_at_element_zero() -> Pair:
    target, expected = _write_view()
    return target, expected.flip(0)


def _halves() -> torch.Tensor:
    x, into = there(normal(128, 64)), [torch.empty(64, 64, dtype=torch.float16, device="spyre") for _ in range(2)]
    for half, start in zip(into, (0, 4096), strict=True):
        half.copy_(x.as_strided((64, 64), (64, 1), start))
    return torch.cat([half.cpu() for half in into])


@stimulus("E-32", published={AUG: Right(0), SEP: Right(0)})
def two_narrows_copied_on_the_device() -> Pair:
    return _halves(), normal(128, 64)


def _prefix_writes(prepare: object) -> Pair:
    """Two prefixes of different lengths of one source are written at the start of a cache, one after the other."""
    source, cache = there(normal(64, 64)), there(torch.zeros(128, 64))
    for rows in (16, 32):
        cache[:rows] = prepare(source[:rows])  # type: ignore[operator]
    return cache, torch.cat((normal(64, 64)[:32], torch.zeros(96, 64)))


@stimulus("E-34", published={AUG: Wrong()})
def prefix_written_after_another_of_a_different_length() -> Pair:
    return _prefix_writes(lambda x: x)


@stimulus("E-34", published={AUG: Wrong()})
def prefix_made_contiguous_before_it_is_written() -> Pair:
    return _prefix_writes(torch.Tensor.contiguous)


@stimulus("E-34", published={AUG: Right(0.002)})
def prefix_cloned_before_it_is_written() -> Pair:
    return _prefix_writes(torch.clone)


@stimulus("E-50", published={APR: Right(0)})
def diff_of_a_row_is_zero() -> Pair:
    return compiled(torch.diff, normal(64, 65)), torch.zeros(64, 64)


@stimulus("E-52", published={AUG: Raises("InductorError", ""), SEP: Raises("InductorError", "")})
def in_place_multiplication_of_a_transposed_tensor() -> Pair:
    x = there(normal(64, 128)).t()
    torch.compile(lambda x: x.mul_(2), dynamic=False)(x)
    return x, normal(64, 128).t() * 2


@stimulus("E-52", published={AUG: REFUSED, SEP: REFUSED})
def strided_source_in_an_eager_indexed_write() -> Pair:
    target, source = there(normal(64, 64)), there(normal(64, 4)).t()
    target[torch.tensor([1, 5, 7, 9]).to("spyre")] = source
    return target, normal(64, 64)


@stimulus("E-52", published={AUG: REFUSED, SEP: REFUSED})
def index_add_in_place() -> Pair:
    target, source = there(normal(64, 64)), there(normal(4, 64))
    target.index_add_(0, torch.tensor([1, 5, 1, 9]).to("spyre"), source)
    return target, normal(64, 64)
