"""`torch.spyre.memory`: counters of the device's allocator, all in bytes."""

from __future__ import annotations

from typing import Any

Device = Any  # int, str, torch.device or None, as everywhere in torch; there is one device


def _stats() -> dict[str, int]:
    from sim_backend.device import ext, start

    start()
    return dict(ext.memory_stats())


_NAMES = {
    "allocated_bytes.all.current": "current",
    "allocated_bytes.all.peak": "peak",
    "allocated_bytes.all.allocated": "allocated",
    "allocated_bytes.all.freed": "freed",
    "allocation.all.current": "live",
    "allocation.all.peak": "live_peak",
    "allocation.all.allocated": "count",
    "allocation.all.freed": "released",
    "segment.all.current": "segments",
    "intermediate_bytes.all.current": "intermediate",
    "num_alloc_retries": "retries",
    "num_ooms": "failed",
}


def memory_stats(device: Device = None) -> dict[str, int]:
    """The counters under the names of torch's DeviceStats; bytes are rounded up to 128 per allocation."""
    stats = _stats()
    return {name: stats[own] for name, own in _NAMES.items()}


def memory_allocated(device: Device = None) -> int:
    """Bytes of live allocations, each rounded up to 128."""
    return _stats()["current"]


def max_memory_allocated(device: Device = None) -> int:
    """The largest `memory_allocated` since the start or `reset_peak_memory_stats`."""
    return _stats()["peak"]


def memory_reserved(device: Device = None) -> int:
    """The same as `memory_allocated`: there is no caching pool."""
    return memory_allocated(device)


def max_memory_reserved(device: Device = None) -> int:
    """The same as `max_memory_allocated`: there is no caching pool."""
    return max_memory_allocated(device)


def reset_peak_memory_stats(device: Device = None) -> None:
    """Let the peak start again from what is allocated now."""
    from sim_backend.device import ext, start

    start()
    ext.reset_peak_memory()


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Let the totals (`.allocated`, `.freed`) and the counts of failures start again from zero."""
    from sim_backend.device import ext, start

    start()
    ext.reset_accumulated_memory()


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Free and total bytes of the device."""
    stats = _stats()
    return stats["limit"] - stats["current"], stats["limit"]


def empty_cache() -> None:
    """Give the simulator's kept host memory back; the device itself has no caching pool."""
    from sim_backend.device import ext, start

    start()
    ext.empty_cache()
