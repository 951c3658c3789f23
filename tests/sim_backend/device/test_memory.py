"""The allocator: 128-byte rounding, statistics, segments, the pool of intermediates, the text of exhaustion."""

from __future__ import annotations

import gc

import pytest
import torch

from sim_backend.device import ext, intermediates

GIB = 2**30


def test_allocations_are_rounded_to_sticks_and_given_back() -> None:
    gc.collect()
    before = torch.spyre.memory_allocated()
    t = torch.empty(1, dtype=torch.int8, device="spyre")
    u = torch.empty(65, dtype=torch.float16, device="spyre")
    assert torch.spyre.memory_allocated() - before == 128 + 256
    del t, u
    assert torch.spyre.memory_allocated() == before


def test_the_peak_is_kept_until_it_is_reset() -> None:
    gc.collect()
    torch.spyre.reset_peak_memory_stats()
    before = torch.spyre.max_memory_allocated()
    torch.empty(1 << 20, dtype=torch.int8, device="spyre")
    assert torch.spyre.max_memory_allocated() - before == 1 << 20
    torch.spyre.reset_peak_memory_stats()
    assert torch.spyre.max_memory_allocated() == before


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


def test_an_allocation_may_span_segments_and_small_ones_still_fit(run_python) -> None:
    out = run_python(
        """
        import torch
        from sim_backend.device import ext, start
        start()
        ext.set_limits(3, 1024, 0)
        a = torch.empty(900, dtype=torch.int8, device="spyre")
        b = torch.empty(2048, dtype=torch.int8, device="spyre")
        try:
            torch.empty(129, dtype=torch.int8, device="spyre")
        except RuntimeError as error:
            print(str(error).splitlines()[0])
        del b
        print(torch.empty(2048, dtype=torch.int8, device="spyre").numel())
        """
    )
    assert out.splitlines() == ["Failed to allocate 129 bytes on Spyre device.", "2048"]


def test_intermediates_have_a_pool_of_their_own(run_python) -> None:
    out = run_python(
        """
        import torch
        from sim_backend.device import ext, intermediates, start
        start()
        ext.set_limits(7, 1 << 20, 1024)
        with intermediates():
            held = torch.empty(1024, dtype=torch.int8, device="spyre")
            try:
                torch.empty(1, dtype=torch.int8, device="spyre")
            except RuntimeError as error:
                print(str(error).splitlines()[0])
        torch.empty(1, dtype=torch.int8, device="spyre")
        print(ext.memory_stats()["intermediate"])
        del held
        print(ext.memory_stats()["intermediate"])
        """
    )
    assert out.splitlines() == ["Failed to allocate 1 bytes on Spyre device.", "1024", "0"]


def test_garbage_is_collected_before_the_device_gives_up(run_python) -> None:
    run_python(
        """
        import gc, torch
        from sim_backend.device import ext, start
        start()
        gc.collect()
        gc.disable()
        ext.set_limits(1, 1024, 0)
        cycle = [torch.empty(1024, dtype=torch.int8, device="spyre")]
        cycle.append(cycle)
        del cycle
        torch.empty(1024, dtype=torch.int8, device="spyre")
        """
    )


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
