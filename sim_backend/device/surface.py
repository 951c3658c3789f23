"""The module `torch.spyre` (facts 5.1): what torch, Inductor and users call on a device module.

Nothing here starts the device unless it must: counting and naming do not.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import torch

from sim_backend.device import devices
from sim_backend.device import memory as memory
from sim_backend.device.fallback_counts import fallback_counts as fallback_counts
from sim_backend.device.fallback_counts import reset_fallback_counts as reset_fallback_counts
from sim_backend.device.memory import empty_cache as empty_cache
from sim_backend.device.memory import max_memory_allocated as max_memory_allocated
from sim_backend.device.memory import max_memory_reserved as max_memory_reserved
from sim_backend.device.memory import mem_get_info as mem_get_info
from sim_backend.device.memory import memory_allocated as memory_allocated
from sim_backend.device.memory import memory_reserved as memory_reserved
from sim_backend.device.memory import memory_stats as memory_stats
from sim_backend.device.memory import reset_accumulated_memory_stats as reset_accumulated_memory_stats
from sim_backend.device.memory import reset_peak_memory_stats as reset_peak_memory_stats
from sim_backend.device.start import start, state

# Looked up when they are first used; they must cost nothing before.
_LAZY = {
    "device_tensor_layout": ("sim_backend.device.layouts", "device_tensor_layout"),
    "require_layout": ("sim_backend.compiler.device_ops", "require_layout"),
    "empty": ("sim_backend.device.layouts", "empty"),
    "to": ("sim_backend.device.layouts", "to"),
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
    """True in a process started, by fork or anew, from a Python process that uses the device; not once it does so."""
    return (state.pid is not None and state.pid != os.getpid()) or (state.pid is None and devices.used_by_parent())


# --- devices


class DeviceProperties(NamedTuple):
    """What is known of the card (facts 1.1); memory in bytes, 0 cores per unknown."""

    name: str
    type: str
    multi_processor_count: int
    total_memory: int


def device_count() -> int:
    """The cards this process sees; it can use one of them."""
    return devices.count(_profile())


def current_device() -> int:
    """The index of the device in use, or that would be."""
    if is_initialized():
        from sim_backend.device import ext

        return int(ext.current_device())
    return devices.chosen(_profile(), state.pending_device)


def set_device(device: Any) -> None:
    """Choose the device; before the start the choice is kept. Raises RuntimeError for a second or a missing one."""
    index = _index(device)
    if not is_initialized():
        state.pending_device = index


def _index(device: Any) -> int:
    index = device if device is None or isinstance(device, int) else torch.device(device).index
    if index in (None, -1):
        return current_device()
    if not is_initialized():
        return devices.chosen(_profile(), index)
    from sim_backend.device import ext

    ext.check_device_index(index)
    return int(index)


def _profile() -> Any:
    from sim_backend.profiles import current_profile

    return current_profile()


def get_device_name(device: Any = None) -> str:
    """The name of the device."""
    return get_device_properties(device).name


def get_device_properties(device: Any = None) -> DeviceProperties:
    """Cores and memory of the device."""
    _index(device)
    profile = _profile()
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


# --- streams and events: values are there at once, completion is a matter of simulated time (`device.clock`)

_HIGH_PRIORITY = range(33, 65)


class Stream(torch.Stream):
    """A queue of work: id 0 is the default, 1 to 32 normal, 33 to 64 high priority, 65 and above host-compute streams.

    `Stream(device, priority)` takes a new one, of high priority if `priority` is negative; `Stream(stream_id=65)` names
    an existing one, and raises RuntimeError where there is none.
    """

    def __new__(cls, device: Any = None, priority: int = 0, *, stream_id: int | None = None) -> Stream:
        """A new stream, or the one with `stream_id`."""
        start()
        index = _index(device)
        if stream_id is None:
            made: Stream = super().__new__(cls, device=torch.device("spyre", index), priority=priority)
            return made
        from sim_backend.device import ext

        ext.check_stream_id(stream_id)
        named: Stream = super().__new__(cls, stream_id=stream_id, device_index=index, device_type=_DEVICE_TYPE)
        return named

    @property
    def priority(self) -> int:
        """-1 for a stream of the high-priority pool, else 0."""
        return -1 if self.stream_id in _HIGH_PRIORITY else 0


_DEVICE_TYPE = int(torch._C._autograd.DeviceType.PrivateUse1)


def Event(  # noqa: N802  (torch's name)
    enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
) -> torch.Event:
    """A point in a stream; `elapsed_time` is simulated time in milliseconds. In 2025-11 events do nothing."""
    start()
    return torch.Event(device="spyre", enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)


def stream(stream: torch.Stream) -> torch.Stream:
    """The stream itself, which is a context manager that selects it."""
    return stream


def current_stream(device: Any = None) -> Stream:
    """The stream that work of this thread goes to."""
    start()
    return Stream(device, stream_id=torch.accelerator.current_stream(_index(device)).stream_id)


def default_stream(device: Any = None) -> Stream:
    """Stream 0."""
    return Stream(device, stream_id=0)


def set_stream(stream: torch.Stream) -> None:
    """Let work of this thread go to `stream`."""
    torch.accelerator.set_stream(stream)


def synchronize(device: Any = None) -> None:
    """Wait, in simulated time, for all streams."""
    start()
    torch.accelerator.synchronize(_index(device))


# --- switches


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes autocast may use."""
    return [torch.float16, torch.bfloat16]


def set_downcast_warning(enabled: bool) -> None:
    """Switch the warning about int64 kept as int32 on or off."""
    state.downcast_warning = bool(enabled)


def get_diagnostic_report() -> dict[str, Any] | None:
    """What a report of a fault would hold, with TORCH_SPYRE_FFDC=1; else None. No error is ever pending here."""
    if os.environ.get("TORCH_SPYRE_FFDC", "0") != "1":
        return None
    started = is_initialized()
    return {
        "profile": _profile().name,
        "device": current_device(),
        "function": devices.function(),
        "initialized": started,
        "memory": memory_stats() if started else {},
        "fallbacks": fallback_counts(),
        "errors": [],
    }
