"""Everything the suite lets pass, with its reason: warning ignores, skips, expected failures. A test counts them."""

from __future__ import annotations

WARNING_IGNORES: tuple[str, ...] = (
    # The device stores int64 as int32 and says so once per process (facts 1.6); the warning has tests of its own.
    "ignore::sim_backend.errors.DowncastWarning",
)
"""pytest filter lines: a category of ours, or a category in one third-party module."""

SKIP_SITES: dict[str, str] = {
    "tests/conftest.py": "a service binary (PostgreSQL, Redis, Chromium, bubblewrap) is not installed; CI forbids it",
}
"""Files that may call pytest.skip, with the reason."""

EXPECTED_FAILURES: dict[str, str] = {}
"""Test ids marked xfail, with the reason."""
