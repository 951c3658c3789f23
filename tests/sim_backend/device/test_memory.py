"""The allocator: 128-byte rounding, statistics, segments, the pool of intermediates, the text of exhaustion."""

from __future__ import annotations

import gc
import json
from typing import Any

import pytest
import torch

from sim_backend.device import ext, intermediates
from sim_backend.layouts import SpyreTensorLayout

GIB = 2**30

pytestmark = pytest.mark.fact("1.2", "5.2")


def test_allocations_are_rounded_to_sticks_and_given_back() -> None:
    gc.collect()
    before = torch.spyre.memory_allocated()
    t = torch.empty(1, dtype=torch.int8, device="spyre")
    u = torch.empty(65, dtype=torch.float16, device="spyre")
    assert torch.spyre.memory_allocated() - before == 128 + 256
    del t, u
    assert torch.spyre.memory_allocated() == before


@pytest.mark.fact("1.6", "2.2", "2.3")
@pytest.mark.parametrize(
    ("size", "dtype", "taken"),
    [
        ((4, 64), torch.float16, 4 * 128),
        ((4, 65), torch.float16, 4 * 2 * 128),  # every row fills whole sticks
        ((5, 100, 150), torch.float16, 100 * 3 * 5 * 128),
        ((4, 64), torch.float32, 4 * 2 * 128),
        ((4, 64), torch.int64, 4 * 2 * 128),  # kept as int32
        ((4, 64), torch.bool, 4 * 128),  # a float of 16 bits
        ((4, 64), torch.uint8, 4 * 2 * 128),  # SENUINT32
        ((4, 64), torch.int8, 4 * 128),
        ((), torch.float16, 128),
    ],
)
def test_an_allocation_counts_what_its_layout_takes_on_the_device(size, dtype, taken: int) -> None:
    gc.collect()
    before = torch.spyre.memory_allocated()
    t = torch.empty(size, dtype=dtype, device="spyre")
    assert torch.spyre.memory_allocated() - before == taken == t.device_tensor_layout().device_bytes


@pytest.mark.fact("2.2")
def test_a_given_layout_counts_its_own_sticks() -> None:
    gc.collect()
    sparse = SpyreTensorLayout.sparse((8, 4), torch.float16)
    before = torch.spyre.memory_allocated()
    t = torch.spyre.empty((8, 4), dtype=torch.float16, device_layout=sparse)
    assert torch.spyre.memory_allocated() - before == 32 * 128
    del t
    assert torch.spyre.memory_allocated() == before


@pytest.mark.fact("1.6")
def test_the_memory_of_a_file_is_counted_in_device_bytes_once_its_dtype_is_known(tmp_path) -> None:
    torch.save(torch.arange(6400), tmp_path / "ids.pt")
    gc.collect()
    before = torch.spyre.memory_allocated()
    ids = torch.load(tmp_path / "ids.pt", map_location="spyre")
    assert torch.spyre.memory_allocated() - before == 6400 * 4
    ids.resize_(12800)
    assert torch.spyre.memory_allocated() - before == 12800 * 4


def test_the_peak_is_kept_until_it_is_reset() -> None:
    gc.collect()
    torch.spyre.reset_peak_memory_stats()
    before = torch.spyre.max_memory_allocated()
    torch.empty(1 << 20, dtype=torch.int8, device="spyre")
    assert torch.spyre.max_memory_allocated() - before == 1 << 20
    torch.spyre.reset_peak_memory_stats()
    assert torch.spyre.max_memory_allocated() == before


def test_a_fresh_allocation_shows_old_bytes() -> None:
    torch.full((4001,), 3.0, dtype=torch.float16).to("spyre")
    assert torch.empty(4001, dtype=torch.float16, device="spyre").cpu().eq(3.0).all()


def test_totals_count_until_they_are_reset() -> None:
    torch.spyre.memory.reset_accumulated_memory_stats()
    t = torch.empty(64, dtype=torch.float16, device="spyre")
    del t
    stats = torch.spyre.memory_stats()
    assert (stats["allocated_bytes.all.allocated"], stats["allocated_bytes.all.freed"]) == (128, 128)
    assert (stats["allocation.all.allocated"], stats["allocation.all.freed"]) == (1, 1)


def test_addresses_are_stick_aligned_and_empty_tensors_take_nothing() -> None:
    before = torch.spyre.memory_stats()["allocation.all.allocated"]
    assert torch.empty(0, device="spyre").numel() == 0
    assert torch.spyre.memory_stats()["allocation.all.allocated"] == before
    assert torch.empty(3, device="spyre").data_ptr() % 128 == 0


def test_exhaustion_names_the_bytes_asked_for() -> None:
    with pytest.raises(RuntimeError, match=rf"^Failed to allocate {120 * GIB} bytes on Spyre device\.") as caught:
        torch.empty(120 * GIB, dtype=torch.int8, device="spyre")
    assert isinstance(caught.value, torch.OutOfMemoryError)
    assert torch.spyre.memory_stats()["num_ooms"] > 0


def test_the_device_has_seven_segments_of_16_gib() -> None:
    free, total = torch.spyre.mem_get_info()
    assert total == 7 * 16 * GIB
    assert free == total - torch.spyre.memory_allocated()


@pytest.fixture(scope="module")
def small(run_python) -> dict[str, Any]:
    """A process whose device has three segments of 1024 bytes, 512 of them for intermediates."""
    return json.loads(run_python(SMALL))


SMALL = """
import gc, json, torch, sim_backend
from sim_backend.device import intermediates
sim_backend.use_profile("profile-2026-08", {
    "limits.segments": 3, "limits.segment_bytes": 1024, "limits.intermediate_bytes": 512})
def take(n):
    return torch.empty(n, dtype=torch.int8, device="spyre")
def text_of(n):
    try:
        take(n)
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return "no error"
collections = []
gc.callbacks.append(lambda phase, info: phase == "start" and collections.append(info["generation"]))
gc.disable()
found = {}
a, b = take(900), take(2048)
found["segments"] = torch.spyre.memory_stats()["segment.all.current"]
found["full"], found["collections"] = text_of(129), len(collections)
del b
found["again"] = text_of(2048)
with intermediates():
    held = take(512)
    found["pool full"] = text_of(1)
found["beside the pool"] = text_of(1)
found["intermediate"] = torch.spyre.memory_stats()["intermediate_bytes.all.current"]
del held
found["intermediate after"] = torch.spyre.memory_stats()["intermediate_bytes.all.current"]
cycle = [take(2048)]
cycle.append(cycle)
del cycle
found["garbage"] = text_of(2048)
found["retries"] = torch.spyre.memory_stats()["num_alloc_retries"]
print(json.dumps(found))
"""


def test_an_allocation_may_span_segments_and_small_ones_still_fit(small) -> None:
    assert small["segments"] == 3
    assert small["full"] == "Failed to allocate 256 bytes on Spyre device."
    assert small["again"] == "no error"


def test_intermediates_have_a_pool_of_their_own(small) -> None:
    assert small["pool full"] == "Failed to allocate 128 bytes on Spyre device."
    assert small["beside the pool"] == "no error"
    assert (small["intermediate"], small["intermediate after"]) == (512, 0)


def test_garbage_is_collected_once_before_the_device_gives_up(small) -> None:
    assert small["collections"] == 1
    assert small["garbage"] == "no error"
    assert small["retries"] == 3


def test_limits_do_not_change_while_memory_is_in_use() -> None:
    held = torch.empty(1, device="spyre")
    with pytest.raises(RuntimeError, match="cannot change while"):
        ext.set_limits(1, 1, 1)
    assert held.numel() == 1


def test_resizing_keeps_the_contents() -> None:
    t = torch.tensor([1.0, 2.0], dtype=torch.float16).to("spyre")
    t.resize_(300)
    assert t.cpu()[:2].tolist() == [1.0, 2.0]


def test_the_intermediate_scope_ends_with_its_block() -> None:
    with intermediates():
        pass
    before = ext.memory_stats()["intermediate"]
    held = torch.empty(10, device="spyre")
    assert ext.memory_stats()["intermediate"] == before
    assert held.numel() == 10
