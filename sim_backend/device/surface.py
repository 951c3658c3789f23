"""The module `torch.spyre` (facts 5.1): what torch, Inductor and users call on a device module.

Nothing here starts the device unless it must: counting and naming do not.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import torch

from sim_backend.device import memory as memory
from sim_backend.device.fallback_counts import fallback_counts as fallback_counts
from sim_backend.device.fallback_counts import reset_fallback_counts as reset_fallback_counts
from sim_backend.device.layouts import device_tensor_layout as device_tensor_layout
from sim_backend.device.layouts import empty as empty
from sim_backend.device.layouts import to as to
from sim_backend.device.memory import empty_cache as empty_cache
from sim_backend.device.memory import max_memory_allocated as max_memory_allocated
from sim_backend.device.memory import max_memory_reserved as max_memory_reserved
from sim_backend.device.memory import mem_get_info as mem_get_info
from sim_backend.device.memory import memory_allocated as memory_allocated
from sim_backend.device.memory import memory_reserved as memory_reserved
from sim_backend.device.memory import memory_stats as memory_stats
from sim_backend.device.memory import reset_peak_memory_stats as reset_peak_memory_stats
from sim_backend.device.start import start, state

_COUNT = 1
# Inductor looks these up when it first compiles; they must cost nothing before.
_LAZY = {
    "Scheduling": ("sim_backend.compiler.scheduling", "SpyreScheduling"),
    "PythonWrapperCodegen": ("sim_backend.compiler.wrapper", "SpyreWrapperCodegen"),
    "CppWrapperCodegen": ("sim_backend.compiler.wrapper", "SpyreWrapperCodegen"),
    "WrapperFxCodegen": ("torch._inductor.codegen.wrapper_fxir", "WrapperFxCodegen"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'torch.spyre' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _LAZY[name]
    return getattr(import_module(module), attribute)


def _lazy_init() -> None:
    """Called by torch before the first use of the device."""
    start()


def init() -> None:
    """Start the device now rather than at its first use."""
    start()


def is_available() -> bool:
    """True: the simulator needs no card."""
    return True


def is_initialized() -> bool:
    """True once the device has started, also in a forked child."""
    return state.pid is not None


def _is_in_bad_fork() -> bool:
    """True in a child forked from a process that uses the device."""
    return state.pid is not None and state.pid != os.getpid()


# --- devices


class DeviceProperties(NamedTuple):
    """What is known of the card (facts 1.1); memory in bytes, 0 cores per unknown."""

    name: str
    type: str
    multi_processor_count: int
    total_memory: int


def device_count() -> int:
    """One device per process."""
    return _COUNT


def current_device() -> int:
    """The index of the device in use: 0."""
    return 0


def set_device(device: Any) -> None:
    """Choose the device; raises RuntimeError for any but the only one."""
    _index(device)


def _index(device: Any) -> int:
    if device is None:
        return 0
    index = device if isinstance(device, int) else torch.device(device).index
    if index not in (None, -1, 0):
        raise RuntimeError(
            f"Invalid device 'spyre:{index}': this process has {_COUNT} Spyre device; "
            "only one Spyre device per process is supported"
        )
    return 0


def get_device_name(device: Any = None) -> str:
    """The name of the device."""
    return get_device_properties(device).name


def get_device_properties(device: Any = None) -> DeviceProperties:
    """Cores and memory of the device."""
    _index(device)
    from sim_backend.profiles import current_profile

    profile = current_profile()
    return DeviceProperties("Spyre (simulated)", "dd2", 32, profile.segments * profile.segment_bytes)


class device:  # noqa: N801  (torch's name)
    """Context manager that selects a device; there is only one, so it checks the index."""

    def __init__(self, device: Any) -> None:
        self.idx = _index(device)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None


# --- random numbers: the state is kept on the host


def _generator() -> torch.Generator:
    from sim_backend.device import ext

    start()
    generator: torch.Generator = ext.default_generator()
    return generator


def manual_seed(seed: int) -> None:
    """Seed the device's generator; remembered if the device has not started."""
    if is_initialized():
        _generator().manual_seed(int(seed))
    else:
        state.pending_seed = int(seed)


def manual_seed_all(seed: int) -> None:
    """The same as `manual_seed`: there is one device."""
    manual_seed(seed)


def initial_seed() -> int:
    """The seed of the device's generator."""
    return _generator().initial_seed()


def get_rng_state(device: Any = "spyre") -> torch.Tensor:
    """The generator's state, a uint8 tensor on the CPU."""
    _index(device)
    return _generator().get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = "spyre") -> None:
    """Restore what `get_rng_state` returned."""
    _index(device)
    _generator().set_state(new_state)


# --- streams and events: work completes at once


def Stream(device: Any = None, priority: int = 0) -> torch.Stream:  # noqa: N802  (torch's name)
    """A new stream of the device: ids 1 to 32, or 33 to 64 for a negative (high) priority."""
    start()
    return torch.Stream(device=torch.device("spyre", _index(device)), priority=priority)


def Event(  # noqa: N802  (torch's name)
    enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
) -> torch.Event:
    """A new event of the device."""
    start()
    return torch.Event(device="spyre", enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)


def stream(stream: torch.Stream) -> torch.Stream:
    """The stream itself, which is a context manager that selects it."""
    return stream


def current_stream(device: Any = None) -> torch.Stream:
    """The stream that work goes to."""
    start()
    return torch.accelerator.current_stream(_index(device))


def default_stream(device: Any = None) -> torch.Stream:
    """Stream 0."""
    start()
    index = _index(device)
    return torch.Stream(stream_id=0, device_index=index, device_type=int(torch._C._autograd.DeviceType.PrivateUse1))


def synchronize(device: Any = None) -> None:
    """Returns at once: work completes as it is queued."""
    _index(device)


# --- switches


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes autocast may use."""
    return [torch.float16, torch.bfloat16]


def set_downcast_warning(enabled: bool) -> None:
    """Switch the warning about int64 kept as int32 on or off."""
    state.downcast_warning = bool(enabled)
