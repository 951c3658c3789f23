"""Suite-wide rules: missing services skip (or fail where skipping is forbidden), warning ignores come from one file."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

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
