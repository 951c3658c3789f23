"""Dynamo names the function of every traced line for a log that is off: it reads each traced file by tokens for it."""

from __future__ import annotations

import logging
from functools import cache


@cache
def name_lines_only_if_shown() -> None:
    """Name traced lines while one of Dynamo's trace logs is on, for every device; harmless to repeat."""
    from torch._dynamo import output_graph, symbolic_convert

    named = symbolic_convert.get_funcname
    logs = (output_graph.trace_call_log, symbolic_convert.trace_source_log)

    def get_funcname(filename: str, lineno: int) -> str | None:
        return named(filename, lineno) if any(log.isEnabledFor(logging.DEBUG) for log in logs) else None

    symbolic_convert.get_funcname = get_funcname
