"""Simulated time: streams in order, events that measure it, costs from the profile, never the wall clock."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from sim_backend.device import clock, ext
from sim_backend.profiles import load_profile

pytestmark = pytest.mark.fact("5.1", "7.5")

EAGER_MS = 5.7
LAUNCH_MS = 0.02
MEMORY_BYTES_PER_MS = 150e6
HOST_BYTES_PER_MS = 20e6


def elapsed(work: Callable[[], object], stream: torch.Stream | None = None) -> float:
    """Simulated milliseconds between an event before and one after `work`."""
    begin, end = (torch.spyre.Event(enable_timing=True) for _ in range(2))
    torch.spyre.synchronize()
    begin.record(stream)
    work()
    end.record(stream)
    end.synchronize()
    return begin.elapsed_time(end)


def test_an_eager_operation_takes_host_time_and_its_bytes_over_the_memory_bandwidth() -> None:
    x = torch.ones(1000, 1000, dtype=torch.float16).to("spyre")
    expected = EAGER_MS + 2 * x.nbytes / MEMORY_BYTES_PER_MS
    assert elapsed(lambda: torch.exp(x)) == pytest.approx(expected, abs=1e-5)


def test_the_same_work_takes_the_same_time_whatever_the_wall_clock_says() -> None:
    x = torch.ones(64, 64, dtype=torch.float16).to("spyre")
    assert elapsed(lambda: x @ x) == elapsed(lambda: x @ x)


def test_copies_take_their_bytes_over_the_bus() -> None:
    host = torch.ones(1 << 20, dtype=torch.float16)
    assert elapsed(lambda: host.to("spyre")) == pytest.approx(host.nbytes / HOST_BYTES_PER_MS, abs=1e-5)
    device = host.to("spyre")
    assert elapsed(device.cpu) == pytest.approx(host.nbytes / HOST_BYTES_PER_MS, abs=1e-5)


def test_a_fallback_pays_the_way_to_the_host_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_SPYRE_FALLBACK_WARN", "0")
    x = torch.ones(1 << 16, dtype=torch.float16).to("spyre")
    expected = EAGER_MS + 2 * x.nbytes / HOST_BYTES_PER_MS
    assert elapsed(lambda: torch.sin(x)) == pytest.approx(expected, abs=1e-5)


def test_a_compiled_graph_pays_one_launch_and_no_eager_host_time() -> None:
    x = torch.ones(128, 128, dtype=torch.float16).to("spyre")
    compiled = torch.compile(lambda t: torch.exp(t) * t + t, dynamic=False, fullgraph=True)
    compiled(x)
    moved = 2 * x.nbytes / MEMORY_BYTES_PER_MS
    assert elapsed(lambda: compiled(x)) == pytest.approx(LAUNCH_MS + moved, abs=1e-5)


@pytest.mark.parametrize(
    ("op", "shapes", "result", "expected"),
    [
        ("aten.mm.default", [(8, 16), (16, 4)], (8, 4), 2 * 8 * 16 * 4),
        ("aten.bmm.default", [(3, 8, 16), (3, 16, 4)], (3, 8, 4), 2 * 3 * 8 * 16 * 4),
        ("aten.addmm.default", [(4,), (8, 16), (16, 4)], (8, 4), 2 * 8 * 16 * 4),
        ("aten.linear.default", [(2, 8, 16), (4, 16), (4,)], (2, 8, 4), 2 * 16 * 16 * 4),
        ("aten.scaled_dot_product_attention.default", [(1, 2, 8, 64)] * 3, (1, 2, 8, 64), 4 * 2 * 8 * 8 * 64),
        ("aten.exp.default", [(8, 16)], (8, 16), 128),
    ],
)
def test_products_count_two_operations_per_multiply_add(op: str, shapes, result, expected: int) -> None:
    assert clock.flop(op, [torch.empty(s) for s in shapes], [torch.empty(result)]) == expected


def test_work_on_one_stream_is_done_in_order_and_two_streams_overlap() -> None:
    host = torch.ones(1 << 20, dtype=torch.float16)
    one, other = torch.spyre.Stream(), torch.spyre.Stream()
    targets = [torch.empty_like(host, device="spyre") for _ in range(2)]
    each = host.nbytes / HOST_BYTES_PER_MS

    def copy(stream: torch.Stream, index: int) -> None:
        with stream:
            targets[index].copy_(host, non_blocking=True)

    assert elapsed(lambda: (copy(one, 0), copy(one, 1)), one) == pytest.approx(2 * each, abs=1e-5)
    assert elapsed(lambda: (copy(one, 0), copy(other, 1)), one) == pytest.approx(each, abs=1e-5)


def test_a_stream_that_waits_for_an_event_starts_after_it() -> None:
    host, target = torch.ones(1 << 20, dtype=torch.float16), torch.empty(1 << 20, dtype=torch.float16, device="spyre")
    one, other = torch.spyre.Stream(), torch.spyre.Stream()

    def chain() -> None:
        with one:
            target.copy_(host, non_blocking=True)
        other.wait_event(one.record_event())

    assert elapsed(chain, other) == pytest.approx(host.nbytes / HOST_BYTES_PER_MS, abs=1e-5)


def test_queries_are_false_until_the_work_is_done_and_polling_ends() -> None:
    host, target = torch.ones(1 << 20, dtype=torch.float16), torch.empty(1 << 20, dtype=torch.float16, device="spyre")
    stream, done = torch.spyre.Stream(), torch.spyre.Event(enable_timing=True)
    with stream:
        target.copy_(host, non_blocking=True)
        done.record()
    assert not stream.query()
    polls = 0
    while not done.query():
        polls += 1
    assert 0 < polls < 200
    assert stream.query()


def test_time_between_events_is_refused_before_they_are_completed() -> None:
    host, target = torch.ones(1 << 20, dtype=torch.float16), torch.empty(1 << 20, dtype=torch.float16, device="spyre")
    begin, end = (torch.spyre.Event(enable_timing=True) for _ in range(2))
    begin.record()
    target.copy_(host, non_blocking=True)
    end.record()
    with pytest.raises(RuntimeError, match="Both events must be completed before calculating elapsed time"):
        begin.elapsed_time(end)
    torch.spyre.synchronize()
    assert begin.elapsed_time(end) > 0.0


def test_the_costs_are_profile_parameters() -> None:
    doubled = load_profile(overrides={"clock.eager_us": 11400})
    clock.set_costs(doubled)
    try:
        x = torch.ones(64, dtype=torch.float16).to("spyre")
        assert elapsed(lambda: torch.exp(x)) == pytest.approx(2 * EAGER_MS, abs=1e-4)
    finally:
        clock.set_costs(load_profile())


def test_host_time_only_goes_forward() -> None:
    before = clock.host_time_ms()
    torch.ones(4).to("spyre").cpu()
    assert clock.host_time_ms() > before
    assert ext.host_time() == pytest.approx(clock.host_time_ms() * 1e6)
