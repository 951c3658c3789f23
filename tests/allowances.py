"""Everything the suite lets pass, with its reason: warning ignores, skips, expected failures. A test counts them."""

from __future__ import annotations

WARNING_IGNORES: tuple[str, ...] = (
    # The device stores int64 as int32 and says so once per process (facts 1.6); the warning has tests of its own.
    "ignore::sim_backend.errors.DowncastWarning",
    # Importing Inductor imports torch.utils.mkldnn, which still uses TorchScript; torch's own use, not ours.
    "ignore:.torch.jit.script_method. is deprecated:DeprecationWarning:torch.jit._script",
)
"""pytest filter lines: a category of ours, or a category in one third-party module."""

WARNING_SITES: dict[str, str] = {
    "tests/conformance/opinfo_child.py": "torch's own operations warn in many ways; only fallbacks are looked at",
    "tests/sim_backend/compiler/test_regions.py": "a fallback between two layers is what the test is about",
    "tests/sim_backend/device/test_copies.py": "torch says that its sparse CSR layout is in beta",
    "tests/sim_backend/errata/test_numerics.py": "the defect is looked at, not the fallback on the way to it",
    "tests/sim_backend/errata/test_views.py": "the defect is looked at, not the fallback on the way to it",
    "tests/sim_backend/table/run.py": "the outcome of a cell counts the fallback warnings itself",
    "tests/adapters/test_on_device.py": "the unpatched model's fallbacks come before the refusal the test is about",
    "tests/adapters/patches/test_families_on_device.py": "the fallbacks of a run are counted, and named",
}
"""Files that may ignore a warning of ours on a single test, with the reason."""

SKIP_SITES: dict[str, str] = {
    "tests/agents/sandbox/test_run.py": "dropping the user can be tried by root only; CI runs as root",
    "tests/conftest.py": "a service binary (PostgreSQL, Redis, Chromium, bubblewrap) is not installed; CI forbids it",
}
"""Files that may call pytest.skip, with the reason."""

EXPECTED_FAILURES: dict[str, str] = {}
"""Test ids marked xfail, with the reason."""
