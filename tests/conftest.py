"""Suite-wide rules: missing services skip (or fail where skipping is forbidden), warning ignores come from one file."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from allowances import WARNING_IGNORES

SERVICES = {
    "postgres": (
        "PostgreSQL",
        lambda: shutil.which("postgres") or sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres")),
    ),
    "redis": ("Redis", lambda: shutil.which("redis-server")),
    "browser": ("Chromium", lambda: shutil.which("chromium")),
    "sandbox": ("bubblewrap", lambda: shutil.which("bwrap")),
}
TORCH_STATE = ("get_default_dtype", "is_grad_enabled", "get_num_threads", "are_deterministic_algorithms_enabled")
SET_FOR_GOOD = ("PYTEST_CURRENT_TEST", "SPYRE_IN_USE", "TORCHINDUCTOR_CACHE_DIR")
"""Set by pytest for each test, by the device when a process begins to use it, by Inductor when it first compiles."""
OURS = ("$SPYRE_", "$OPENAI_", "$HF_")
SKIPS_FORBIDDEN = os.environ.get("SPYRE_FACTORY_TEST_SKIPS") == "forbidden"

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")


def pytest_configure(config: pytest.Config) -> None:
    for line in WARNING_IGNORES:
        config.addinivalue_line("filterwarnings", line)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, (name, find) in SERVICES.items():
        if item.get_closest_marker(marker) and not find():
            message = f"{name} is not installed"
            (pytest.fail if SKIPS_FORBIDDEN else pytest.skip)(message)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests begin first, whatever the random order says, so that no worker ends with them alone."""
    items.sort(key=lambda item: {"e2e", "faults"}.isdisjoint(item.path.parts))


@pytest.fixture(autouse=True)
def _leaves_the_process_as_it_was() -> Iterator[None]:
    """Thousands of tests share one process, in random order: what one changes for good fails another far away."""
    before = process_state()
    yield
    changed = changes(before, process_state())
    assert not changed, f"the test left this changed: {changed}"


def changes(before: dict[str, Any], after: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What differs. What is new counts for our own variables only: torch sets some of its own at their first use."""
    new = {name for name in after.keys() - before.keys() if name.startswith(OURS)}
    gone = {name for name in before.keys() - after.keys() if name.startswith("$")}
    both = {name for name in before.keys() & after.keys() if before[name] != after[name]}
    return {name: (before.get(name), after.get(name)) for name in new | gone | both}


def process_state() -> dict[str, Any]:
    """What a test can change for its process. A module that is not imported yet has no state."""
    state: dict[str, Any] = {"folder": str(Path.cwd()), "umask": umask()}
    state |= {f"${name}": value for name, value in os.environ.items() if name not in SET_FOR_GOOD}
    if torch := sys.modules.get("torch"):
        state |= {name: getattr(torch, name)() for name in TORCH_STATE}
        state["is_exporting"] = torch.compiler.is_exporting()
    numerics = sys.modules.get("sim_backend.numerics")
    if numerics and numerics._ext.cache_info().currsize:
        state["rounding of the simulated device"] = numerics.op_rounding()
    return state


def umask() -> int:
    """The process's umask; it can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
