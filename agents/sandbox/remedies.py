"""What an operator does about a sandbox that cannot be set up: a table from what the tools say to one sentence."""

from __future__ import annotations

REMEDIES: tuple[tuple[str, str], ...] = (
    ("Unknown option", "install bubblewrap 0.8 or newer"),
    (
        "unshare(CLONE_NEWNS)",
        "run the worker as an ordinary user, or give its container the right to mount (CAP_SYS_ADMIN)",
    ),
    (
        "No permissions to create",
        "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1; on Ubuntu an AppArmor profile "
        "for bwrap)",
    ),
    (
        "Creating new namespace failed",
        "allow user namespaces (sysctl user.max_user_namespaces above 0; in a container a seccomp profile with them)",
    ),
    (
        "Permission denied",
        "make interpreter and packages readable for everyone (chmod -R a+rX), or run the worker as their owner",
    ),
    (
        "Operation not permitted",
        "allow user namespaces and mounts for the worker (in a container: --security-opt seccomp=unconfined)",
    ),
)
"""Matched in order against bubblewrap's message."""

OTHERWISE = "run `spyre-factory sandbox selftest` and read docs on the sandbox; the rules drafter works without it"


def remedy_for(message: str) -> str:
    """The first remedy whose mark is in `message`."""
    return next((remedy for mark, remedy in REMEDIES if mark in message), OTHERWISE)
