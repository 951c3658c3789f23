"""Structured logs: one JSON object per line on standard error, so that `--json` output stays clean."""

from __future__ import annotations

import sys

import structlog


def configure_logging() -> None:
    """Send structlog's events to standard error as JSON lines. Called by processes, never by imports."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
