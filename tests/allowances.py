"""Everything the suite lets pass, with its reason: warning ignores, skips, expected failures. A test counts them."""

from __future__ import annotations

WARNING_IGNORES: tuple[str, ...] = ()
"""pytest filter lines, only by category and third-party module."""

SKIP_SITES: dict[str, str] = {
    "tests/conftest.py": "a service binary (PostgreSQL, Redis, Chromium, bubblewrap) is not installed; CI forbids it",
}
"""Files that may call pytest.skip, with the reason."""

EXPECTED_FAILURES: dict[str, str] = {}
"""Test ids marked xfail, with the reason."""
