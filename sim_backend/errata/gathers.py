"""Rows read by index for which no layout is found: E-71 (a table of one row), E-73 (rows of a rank-6 result)."""

from __future__ import annotations

import math

from sim_backend.errata.rule import Call, Refuse, Rule
from sim_backend.profiles import Profile

ROPE_RANK, SELECTED_RANK = 6, 4


def no_layout(op: str, size: tuple[int, ...]) -> str:
    """The compiler's words when no layout of an operation's output serves all of its inputs (facts 3.7)."""
    return f"buf0 ({op}): no supported output layout found for any of 1 candidate input layouts; output size={[*size]}"


def _one_row_table(profile: Profile, call: Call) -> str | None:
    table, ids = call.operands[:2]
    return no_layout(call.op, (*ids.shape, table.shape[-1])) if table.shape[0] == 1 else None


def _rows_of_rank_6(profile: Profile, call: Call) -> str | None:
    source = call.operands[0]
    base = source.base or source.shape
    if call.result is None or len(base) != ROPE_RANK or len(call.result.shape) != SELECTED_RANK:
        return None
    return no_layout(call.op, call.result.shape) if math.prod(call.result.shape) < math.prod(base) else None


RULES: tuple[Rule, ...] = (
    Rule("E-71", frozenset(["aten.embedding"]), _one_row_table, Refuse("layout")),
    Rule(
        "E-73",
        frozenset(["aten.select", "aten.slice", "aten.index_select", "aten.index"]),
        _rows_of_rank_6,
        Refuse("layout"),
    ),
)
