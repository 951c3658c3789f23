"""`spyre-factory --server URL COMMAND`: the same command, answered by a running service and not by this machine."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING

from pipeline.errors import BadInput

if TYPE_CHECKING:
    from pipeline.cli.client import Client

OPTION = "--server"
SERVED = frozenset(
    {
        "request", "status", "models", "coverage", "ops", "capabilities",
        "adapters list", "adapters show", "adapters export", "evidence list", "evidence replay",
        *(f"review {verb}" for verb in ("list", "show", "claim", "approve", "reject", "changes", "strike")),
        *(f"review {verb}" for verb in ("rules", "accept-rule", "reject-rule")),
    }
)  # fmt: skip
"""Commands that a service can answer; the others are about this machine or its data directory."""
_server: ContextVar[str | None] = ContextVar("server", default=None)


def service() -> Client | None:
    """The service that answers this command; None for this installation."""
    from pipeline.cli.client import Client

    url = _server.get()
    return Client(url) if url else None


def take_server(arguments: Sequence[str]) -> list[str]:
    """The arguments without `--server URL`, which may stand anywhere. Raises `BadInput` for a command it is not for."""
    left, url = _without_option(arguments)
    words = [word for word in left if not word.startswith("-")]
    served = any(" ".join(words[:count]) in SERVED for count in (1, 2))
    if url is not None and words and not served:
        raise BadInput(f"`{' '.join(words[:2])}` is about this installation: a service at {OPTION} cannot do it.")
    _server.set(url)
    return left


def _without_option(arguments: Sequence[str]) -> tuple[list[str], str | None]:
    left, url, rest = list[str](), None, iter(arguments)
    for word in rest:
        if word == OPTION:
            url = next(rest, "")
        elif word.startswith(f"{OPTION}="):
            url = word.removeprefix(f"{OPTION}=")
        else:
            left.append(word)
    if url is not None and not url.startswith(("http://", "https://")):
        raise BadInput(f"{OPTION} takes the URL of a service, such as http://127.0.0.1:8000.")
    return left, url
