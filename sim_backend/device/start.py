"""Starts the device: once per process, at its first use, with the profile that is active by then."""

from __future__ import annotations

import importlib
import os
import threading
import warnings
from typing import Any

from sim_backend.errors import DowncastWarning, FallbackWarning
from sim_backend.numerics import Infinity, Rounding, set_op_rounding

_ON_DEVICE = {"compiled": 0, "refused": 1, "memcpy": 2}
DOWNCAST_TEXT = "Backend Spyre does not support int64; downcasting to int32"


class _State:
    """Whether the device runs, in which process, and what was asked of it before it did."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.starting = False
        self.pid: int | None = None  # the process that started it
        self.pending_seed: int | None = None
        self.pending_device: int | None = None
        self.downcast_warning = os.environ.get("TORCH_SPYRE_DOWNCAST_WARN", "1") != "0"


state = _State()


def start() -> None:
    """Load the device (building it first if needed) and fix the profile. Idempotent.

    Raises BuildError, or RuntimeError if another backend has the device or this process cannot have its card.
    """
    if state.pid is not None:
        return
    with state.lock:
        if state.pid is not None or state.starting:
            return
        state.starting = True
        try:
            _start()
            state.pid = os.getpid()
        finally:
            state.starting = False


def _start() -> None:
    from sim_backend.autoload import register
    from sim_backend.device import clock, devices, eager, ext, host_forms, layouts, strided
    from sim_backend.device.casts import Casts
    from sim_backend.profiles import active

    if not register():
        raise RuntimeError("the simulated Spyre is not available: a real torch_spyre or another backend has the device")
    profile = active()
    card = devices.chosen(profile, state.pending_device)
    apply_policies(ext, profile)
    _apply_memory(ext, profile)
    _apply_runtime(ext, profile, card)
    clock.set_costs(profile)
    ext.set_callbacks(Casts(profile).check, _warn_downcast)
    warnings.filterwarnings("once", category=FallbackWarning, append=True)
    eager.install(profile, _optional("sim_backend.errata.eager", "apply"))
    host_forms.install()
    strided.install()
    layouts.install()
    if state.pending_seed is not None:
        ext.default_generator().manual_seed(state.pending_seed)
    install_compiler = _optional("sim_backend.compiler.dynamo", "install")
    if install_compiler is not None:
        install_compiler()
    devices.claim(profile, card)
    devices.meet_function(profile)


def apply_policies(ext: Any, profile: Any) -> None:
    """Fix how values are rounded on the way in, on the way out and after every operation, as the profile says."""
    import torch

    refused = [(getattr(torch, name), message) for name, message in profile.h2d_refused.items()]
    h2d, d2h, results = (Rounding[n.upper()] for n in (profile.h2d_rounding, profile.d2h_rounding, profile.op_rounding))
    infinity, small_bfloat_infinity = Infinity[profile.h2d_infinity.upper()], not profile.has("E-20")
    ext.set_policy(h2d, d2h, infinity, refused, profile.refused_copy_aborts, small_bfloat_infinity)
    ext.set_op_rounding(results)
    set_op_rounding(results)


def _apply_memory(ext: Any, profile: Any) -> None:
    from sim_backend.layouts import element_sizes
    from sim_backend.layouts import of_2025 as layouts_of_2025

    old = profile.layouts == "of_2025"
    sizes = layouts_of_2025.element_sizes() if old else element_sizes()
    ext.set_formats(list(sizes.items()), single_partial_stick=old)
    ext.set_limits(profile.segments, profile.segment_bytes, profile.intermediate_bytes)


def _apply_runtime(ext: Any, profile: Any, card: int) -> None:
    from sim_backend.device import devices

    own = profile.runtime
    ext.set_runtime(
        devices=devices.count(profile),
        device=card,
        second_device=devices.SECOND_DEVICE if profile.has("E-66") else devices.ONE_DEVICE,
        streams=own["streams"] == "pools",
        events=own["events"] == "simulated",
        host_compute_streams=devices.host_compute_streams(),
    )
    ext.set_copy_rules(
        on_device=_ON_DEVICE[profile.copies_on_device],
        empty_crashes=profile.has("E-57"),
        first_offset=profile.has("E-32"),
        writes_base=profile.has("E-33"),
        rank_limit=profile.rank_limit,
    )
    if profile.has("E-66"):
        os.register_at_fork(after_in_child=lambda: ext.refuse_allocations(devices.SECOND_DEVICE))


def _optional(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return None


def _warn_downcast() -> None:
    if state.downcast_warning:
        warnings.warn(DOWNCAST_TEXT, DowncastWarning, stacklevel=2)
