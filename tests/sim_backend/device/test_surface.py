"""The module torch.spyre: devices, streams, events, random state, lazy start."""

from __future__ import annotations

import pytest
import torch


def test_there_is_one_device_and_others_are_refused() -> None:
    assert (torch.spyre.device_count(), torch.spyre.current_device()) == (1, 0)
    for call in (
        lambda: torch.empty(1, device="spyre:1"),
        lambda: torch.ones(1).to("spyre:1"),
        lambda: torch.spyre.set_device(1),
        lambda: torch.spyre.device("spyre:3"),
    ):
        with pytest.raises(RuntimeError, match=r"Invalid device 'spyre:\d'.*only one Spyre device per process"):
            call()
    with torch.spyre.device(0):
        assert torch.empty(1, device="spyre").device == torch.device("spyre", 0)


def test_it_is_the_accelerator() -> None:
    torch.spyre.init()
    assert torch.accelerator.current_accelerator() == torch.device("spyre")
    assert torch.accelerator.device_count() == 1
    torch.accelerator.synchronize()
    torch.spyre.synchronize()


def test_stream_ids_follow_the_pools() -> None:
    normal, high = torch.spyre.Stream(), torch.spyre.Stream(priority=-1)
    assert 1 <= normal.stream_id <= 32
    assert 33 <= high.stream_id <= 64
    assert torch.spyre.default_stream().stream_id == 0
    with torch.spyre.stream(normal):
        assert torch.spyre.current_stream().stream_id == normal.stream_id
    assert torch.spyre.current_stream().stream_id == 0
    assert normal.query()


def test_events_measure_time_forward() -> None:
    begin, end = torch.spyre.Event(enable_timing=True), torch.spyre.Event(enable_timing=True)
    begin.record()
    end.record()
    end.synchronize()
    assert end.query()
    assert begin.elapsed_time(end) >= 0.0


def test_random_state_can_be_saved_and_restored() -> None:
    state = torch.spyre.get_rng_state()
    first = torch.rand(4, device="spyre").cpu()
    torch.spyre.set_rng_state(state)
    assert torch.equal(torch.rand(4, device="spyre").cpu(), first)
    torch.spyre.manual_seed(5)
    assert torch.spyre.initial_seed() == 5


def test_a_seed_set_before_the_start_holds_after_it(run_python) -> None:
    source = (
        "import torch; torch.manual_seed({}); print(torch.spyre.is_initialized(), torch.rand(2, device='spyre').cpu())"
    )
    one, same, other = (run_python(source.format(seed)) for seed in (1, 1, 2))
    assert one.startswith("False")
    assert one == same != other


def test_a_fork_of_a_process_that_uses_the_device_is_known_as_such(run_python) -> None:
    out = run_python(
        """
        import os, torch
        torch.spyre.init()
        read, write = os.pipe()
        if os.fork() == 0:
            os.write(write, str(torch.spyre._is_in_bad_fork()).encode())
            os._exit(0)
        os.wait()
        print(os.read(read, 10).decode(), torch.spyre._is_in_bad_fork())
        """
    )
    assert out.split() == ["True", "False"]


def test_properties_and_amp_dtypes() -> None:
    properties = torch.spyre.get_device_properties(0)
    assert (properties.multi_processor_count, properties.type) == (32, "dd2")
    assert properties.total_memory == 7 * 16 * 2**30
    assert torch.spyre.get_amp_supported_dtype() == [torch.float16, torch.bfloat16]
    assert torch.spyre.get_device_name() == "Spyre (simulated)"


def test_the_device_starts_at_first_use_and_fixes_the_profile(run_python) -> None:
    out = run_python(
        """
        import torch, sim_backend
        from sim_backend.errors import SpyreProfileError
        sim_backend.use_profile("profile-2026-04")
        sim_backend.use_profile("profile-2026-09")
        print(torch.spyre.is_initialized())
        torch.empty(1, device="spyre")
        print(torch.spyre.is_initialized(), sim_backend.current_profile().name)
        try:
            sim_backend.use_profile("profile-2026-08")
        except SpyreProfileError:
            print("refused")
        """
    )
    assert out.split() == ["False", "True", "profile-2026-09", "refused"]


def test_the_environment_names_the_profile_of_a_child(run_python) -> None:
    out = run_python(
        "import torch, sim_backend; torch.empty(1, device='spyre'); print(sim_backend.current_profile().name)",
        SPYRE_SIM_PROFILE="profile-2026-04",
    )
    assert out.strip() == "profile-2026-04"


def test_an_unknown_attribute_is_named() -> None:
    with pytest.raises(AttributeError, match=r"'torch\.spyre' has no attribute 'nonsense'"):
        torch.spyre.nonsense  # noqa: B018


def test_memory_functions_are_also_a_submodule() -> None:
    assert torch.spyre.memory.memory_allocated() == torch.spyre.memory_allocated()
    assert torch.spyre.memory_stats().keys() >= {"allocated_bytes.all.current", "num_ooms"}


def test_inductor_finds_its_classes_only_when_it_asks(run_python) -> None:
    out = run_python(
        """
        import sys, torch
        torch.ones(2).to("spyre")
        print(any(m.startswith("torch._inductor") for m in sys.modules))
        names = ("Scheduling", "PythonWrapperCodegen", "CppWrapperCodegen", "WrapperFxCodegen")
        print(*(getattr(torch.spyre, name).__name__ for name in names))
        """
    )
    assert out.split() == ["False", "SpyreScheduling", "SpyreWrapperCodegen", "SpyreWrapperCodegen", "WrapperFxCodegen"]
