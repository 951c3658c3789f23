"""The module torch.spyre: devices, streams, events, random state, lazy start."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.fact("5.1")


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
    assert torch.accelerator.current_device_index() == 0
    torch.accelerator.set_device_index(0)
    torch.accelerator.synchronize()
    torch.spyre.synchronize()


def test_the_accelerator_api_reads_the_memory_counters() -> None:
    held = torch.empty(100, dtype=torch.float16, device="spyre")
    assert torch.accelerator.memory_allocated() == torch.spyre.memory_allocated()
    stats = torch.accelerator.memory_stats()
    assert stats["allocated_bytes.all.current"] == torch.spyre.memory_allocated()
    assert torch.accelerator.get_memory_info() == torch.spyre.mem_get_info()
    torch.accelerator.reset_peak_memory_stats()
    assert torch.accelerator.max_memory_allocated() == torch.spyre.memory_allocated()
    torch.accelerator.empty_cache()
    assert held.numel() == 100


def test_stream_ids_follow_the_pools() -> None:
    normal, high = torch.spyre.Stream(), torch.spyre.Stream(priority=-1)
    assert 1 <= normal.stream_id <= 32
    assert 33 <= high.stream_id <= 64
    assert (normal.priority, high.priority) == (0, -1)
    assert torch.spyre.default_stream().stream_id == 0
    assert {torch.spyre.Stream().stream_id for _ in range(40)} == set(range(1, 33))
    with torch.spyre.stream(normal):
        assert torch.spyre.current_stream() == normal
    assert torch.spyre.current_stream().stream_id == 0


def test_host_compute_streams_have_the_ids_from_65() -> None:
    assert torch.spyre.Stream(stream_id=68).stream_id == 68
    with pytest.raises(RuntimeError, match="Invalid stream id 69: this Spyre device has streams 0 to 68"):
        torch.spyre.Stream(stream_id=69)


def test_streams_are_chosen_per_thread() -> None:
    seen: list[int] = []
    with torch.spyre.Stream():
        thread = threading.Thread(target=lambda: seen.append(torch.spyre.current_stream().stream_id))
        thread.start()
        thread.join()
    assert seen == [0]
    torch.spyre.set_stream(torch.spyre.Stream(stream_id=7))
    assert torch.accelerator.current_stream().stream_id == 7
    torch.spyre.set_stream(torch.spyre.default_stream())


def test_random_state_can_be_saved_and_restored() -> None:
    state = torch.spyre.get_rng_state()
    first = torch.rand(4, device="spyre").cpu()
    torch.spyre.set_rng_state(state)
    assert torch.equal(torch.rand(4, device="spyre").cpu(), first)
    torch.spyre.manual_seed(5)
    assert torch.spyre.initial_seed() == 5


def test_a_forked_generator_leaves_the_state_as_it_was() -> None:
    before = torch.spyre.get_rng_state()
    with torch.random.fork_rng(device_type="spyre"):
        torch.rand(3, device="spyre")
    assert torch.equal(torch.spyre.get_rng_state(), before)


def test_a_generator_of_the_device_has_its_own_state() -> None:
    generator = torch.Generator(device="spyre").manual_seed(3)
    assert generator.device.type == "spyre"
    state, first = generator.get_state(), torch.rand(4, device="spyre", generator=generator).cpu()
    generator.set_state(state)
    assert torch.equal(torch.rand(4, device="spyre", generator=generator).cpu(), first)
    copied = generator.clone_state()
    assert torch.equal(copied.get_state(), generator.get_state())


def test_a_seed_set_before_the_start_holds_after_it(run_python) -> None:
    out = run_python(
        """
        import os, sys, torch
        for seed in (1, 1, 2):
            if os.fork() == 0:
                torch.manual_seed(seed)
                print(torch.spyre.is_initialized(), torch.rand(2, device="spyre").cpu(), flush=True)
                os._exit(0)
            os.wait()
        """
    )
    one, same, other = out.splitlines()
    assert one.startswith("False")
    assert one == same != other


def test_properties_and_amp_dtypes() -> None:
    properties = torch.spyre.get_device_properties(0)
    assert (properties.multi_processor_count, properties.type) == (32, "dd2")
    assert properties.total_memory == 7 * 16 * 2**30
    assert torch.spyre.get_amp_supported_dtype() == [torch.float16, torch.bfloat16]
    assert torch.spyre.get_device_name() == "Spyre (simulated)"


LATEST = """
import json, sys, torch, sim_backend
from sim_backend.errors import SpyreProfileError
found = {"environment": sim_backend.current_profile().name}
sim_backend.use_profile("profile-2025-11")
sim_backend.use_profile("latest")
found["before"] = torch.spyre.is_initialized()
x = torch.full((2,), 2.0, dtype=torch.float16).to("spyre")
found["after"] = torch.spyre.is_initialized()
found["inductor"] = any(m.startswith("torch._inductor") for m in sys.modules)
found["profile"] = sim_backend.current_profile().name
sim_backend.use_profile("profile-2026-09")
try:
    sim_backend.use_profile("profile-2026-08")
except SpyreProfileError as error:
    found["refused"] = str(error)
found["cube"] = torch.pow(x, 3).cpu().tolist()
names = ("Scheduling", "PythonWrapperCodegen", "CppWrapperCodegen", "WrapperFxCodegen")
found["classes"] = [getattr(torch.spyre, name).__name__ for name in names]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def latest(run_python) -> dict[str, Any]:
    """A process whose environment names one profile and whose program chooses another."""
    return json.loads(run_python(LATEST, SPYRE_SIM_PROFILE="profile-2026-04"))


def test_the_device_starts_at_first_use_and_fixes_the_profile(latest) -> None:
    assert (latest["before"], latest["after"], latest["profile"]) == (False, True, "profile-2026-09")
    assert latest["refused"].startswith(
        "profile 'profile-2026-08' refused: this process already uses 'profile-2026-09'"
    )


def test_the_environment_names_the_profile_of_a_child(latest) -> None:
    assert latest["environment"] == "profile-2026-04"


@pytest.mark.fact("E-08", "3.4")
def test_a_cube_is_a_cube_in_september(latest) -> None:
    assert latest["cube"] == [8.0, 8.0]


def test_an_unknown_attribute_is_named() -> None:
    with pytest.raises(AttributeError, match=r"'torch\.spyre' has no attribute 'nonsense'"):
        torch.spyre.nonsense  # noqa: B018


def test_memory_functions_are_also_a_submodule() -> None:
    assert torch.spyre.memory.memory_allocated() == torch.spyre.memory_allocated()
    assert torch.spyre.memory_stats().keys() >= {"allocated_bytes.all.current", "num_ooms"}


def test_inductor_finds_its_classes_only_when_it_asks(latest) -> None:
    assert not latest["inductor"]
    expected = ["SpyreScheduling", "SpyreWrapperCodegen", "SpyreWrapperCodegen", "WrapperFxCodegen"]
    assert latest["classes"] == expected
