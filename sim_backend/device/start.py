"""Starts the device: once per process, at its first use, with the profile that is active by then."""

from __future__ import annotations

import importlib
import os
import threading
import warnings
from typing import Any

from sim_backend.errors import DowncastWarning, FallbackWarning
from sim_backend.numerics import Infinity, Rounding, set_op_rounding

DOWNCAST_TEXT = "Backend Spyre does not support int64; downcasting to int32"


class _State:
    """Whether the device runs, in which process, and what was asked of it before it did."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.starting = False
        self.pid: int | None = None  # the process that started it
        self.pending_seed: int | None = None
        self.downcast_warning = os.environ.get("TORCH_SPYRE_DOWNCAST_WARN", "1") != "0"


state = _State()


def start() -> None:
    """Load the device (building it first if needed) and fix the profile. Idempotent; raises BuildError."""
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
    from sim_backend.device import eager, ext, host_forms
    from sim_backend.device.casts import Casts
    from sim_backend.profiles import active

    register()
    profile = active()
    _apply_policies(ext, profile)
    ext.set_callbacks(Casts(profile).check, _warn_downcast)
    warnings.filterwarnings("once", category=FallbackWarning, append=True)
    eager.install(profile, _optional("sim_backend.errata.eager", "apply"))
    host_forms.install()
    if state.pending_seed is not None:
        ext.default_generator().manual_seed(state.pending_seed)
    install_compiler = _optional("sim_backend.compiler.dynamo", "install")
    if install_compiler is not None:
        install_compiler()


def _apply_policies(ext: Any, profile: Any) -> None:
    import torch

    refused = [(getattr(torch, name), message) for name, message in profile.h2d_refused.items()]
    h2d, d2h, results = (Rounding[n.upper()] for n in (profile.h2d_rounding, profile.d2h_rounding, profile.op_rounding))
    ext.set_policy(h2d, d2h, Infinity[profile.h2d_infinity.upper()], refused)
    ext.set_op_rounding(results)
    set_op_rounding(results)
    ext.set_limits(profile.segments, profile.segment_bytes, profile.intermediate_bytes)


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
