"""The device's entries in Inductor's and Dynamo's registries, made at the first compilation."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch._dynamo.device_interface import DeviceInterface, register_interface_for_device
from torch._inductor.codegen.common import (
    DeviceOpOverrides,
    register_backend_for_device,
    register_device_op_overrides,
)

CORES = 32
_lock = threading.Lock()
_done: list[bool] = []


class SpyreOpOverrides(DeviceOpOverrides):
    """Lines of generated wrappers: one device, one stream, nothing to guard."""

    def import_get_raw_stream_as(self, name: str) -> str:
        return f"def {name}(_):\n    return 0\n"

    def set_device(self, device_idx: int) -> str:
        return "pass"

    def synchronize(self) -> str:
        return "pass"

    def device_guard(self, device_idx: int) -> str:
        return "torch._ops.contextlib.nullcontext()"

    def current_stream(self) -> str:
        return "0"


class SpyreProperties:
    """What the Inductor device properties report (facts 1.1, 4.1)."""

    name = "spyre"
    type = "dd2"
    index = 0
    major, minor = 1, 0
    multi_processor_count = CORES
    total_memory = 128 << 30


class SpyreInterface(DeviceInterface):
    """Dynamo's view of the device."""

    Event = torch.Event  # type: ignore[assignment]
    Stream = torch.Stream  # type: ignore[assignment]

    class Worker:
        """Used by compile workers."""

        @staticmethod
        def set_device(device: int) -> None:
            """One device."""

        @staticmethod
        def current_device() -> int:
            return 0

        @staticmethod
        def get_device_properties(device: Any = None) -> SpyreProperties:
            return SpyreProperties()

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def set_device(device: Any) -> None:
        """One device."""

    @staticmethod
    def device_count() -> int:
        return 1

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        return 0

    @staticmethod
    def synchronize(device: Any = None) -> None:
        """Programs complete at once."""

    @staticmethod
    def is_triton_capable(device: Any = None) -> bool:
        return False

    @staticmethod
    def get_compute_capability(device: Any = None) -> str:
        return "dd2"

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        return True

    @staticmethod
    def maybe_exchange_device(device: int) -> int:
        return 0

    @staticmethod
    def exchange_device(device: int) -> int:
        return 0

    @classmethod
    def get_device_properties(cls, device: Any = None) -> SpyreProperties:
        return SpyreProperties()


def register() -> None:
    """Register once per process; later calls do nothing."""
    from sim_backend.compiler.checks import GraphChecks  # noqa: F401 its import checks the torch version early
    from sim_backend.compiler.scheduling import SpyreScheduling
    from sim_backend.compiler.trace_log import name_lines_only_if_shown
    from sim_backend.compiler.wrapper import SpyreWrapperCodegen

    with _lock:
        if _done:
            return
        name_lines_only_if_shown()
        for name in ("spyre", "spyre:0"):
            register_interface_for_device(name, SpyreInterface)
        register_device_op_overrides("spyre", SpyreOpOverrides())
        register_backend_for_device("spyre", SpyreScheduling, SpyreWrapperCodegen)
        _done.append(True)
