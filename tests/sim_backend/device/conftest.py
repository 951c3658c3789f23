"""Fixtures of the device's tests: a fresh interpreter for what is decided once per process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator

import pytest

PythonRunner = Callable[..., str]


@pytest.fixture(scope="session")
def run_python() -> PythonRunner:
    """`run_python(source, NAME="value")` -> standard output of a new interpreter; fails with its standard error."""

    def run(source: str, **environment: str) -> str:
        own = {k: v for k, v in os.environ.items() if k != "SPYRE_IN_USE"}  # this process uses the device, too
        env = {**own, "OMP_NUM_THREADS": "1", **environment}
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(source)], env=env, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def _quiet_int64() -> Iterator[None]:
    """int64 reaches the device without its warning, which comes once per process."""
    import torch

    from sim_backend.device.start import state

    before = state.downcast_warning
    torch.spyre.set_downcast_warning(False)
    yield
    torch.spyre.set_downcast_warning(before)
