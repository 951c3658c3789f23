"""Structured logs: one JSON object per line on standard error, so that `--json` output stays clean.

Keys of the environment are taken out of every line, whatever error or endpoint put them there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from agents.redact import redactor_of


def configure_logging() -> None:
    """Send structlog's events to standard error as JSON lines. Called by processes, never by imports."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            without_secrets,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


def without_secrets(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor: the event with every text in it redacted, and as text what JSON cannot hold."""
    redactor = redactor_of(None)
    found: dict[str, Any] = redactor.data(json.loads(json.dumps(dict(event), default=repr)))
    return found
