"""The cheapest form of a term over whole rows that a profile computes, with the chain of rules that leads to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agents.drafters.rules.activations import ALGEBRA, ROOTS, SIGMOIDS
from agents.drafters.rules.device import ELEMENTS, computes
from agents.drafters.rules.operations import REDUCTIONS, STANDS_FOR
from agents.drafters.rules.powers import POWERS
from agents.drafters.rules.ranges import Box, stays_within
from agents.drafters.rules.rewrite import Rewriting, rewrite
from agents.drafters.rules.table import ROW_RULES
from agents.drafters.rules.terms import Call, Const, Sort, Term, sort_of

WIDTH = 768
"""Lanes of a row that forms are compared at."""

BESIDE = (
    *POWERS,
    *SIGMOIDS,
    *ROOTS,
    *(rule for rule in ALGEBRA if rule.name in ("mul_commutes", "times_one")),
    *ROW_RULES,
)
"""What is searched for rows: all algebra of products and sums besides would fill the search with orders of factors."""

MATRICES = frozenset({"aten.matmul.default", "aten.linear.default", "row.chosen"})
SHUFFLES = frozenset(
    {f"row.{name}" for name in ("first", "second", "even", "odd", "cat", "interleave", "padded", "under")}
    | {f"heads.{name}" for name in ("repeated", "folded", "unfolded", "tiled")}
)


def cost_of_rows(call: Call) -> float:
    """Simulated nanoseconds of a call on ELEMENTS in rows of WIDTH; what the host makes costs the device nothing."""
    from sim_backend.cost import load_costs

    costs, sort = load_costs(), sort_of(call)
    if sort is Sort.HOST:
        return 0.0
    operands = sum(not isinstance(a, Const) for a in call.args)
    if call.op in REDUCTIONS:
        return costs.op_ns(call.op, ELEMENTS // WIDTH, operands, WIDTH)
    if call.op in MATRICES:
        return costs.op_ns("aten.matmul.default", ELEMENTS, operands, WIDTH)
    if call.op in SHUFFLES:
        return costs.memory_ns(ELEMENTS, ELEMENTS)
    return costs.op_ns(call.op, ELEMENTS // WIDTH if sort is Sort.ROW else ELEMENTS, operands, WIDTH)


def lacks(profile: str) -> Callable[[Call], bool]:
    """Which calls the profile's device does not compute; what the host makes is never among them."""

    def unwanted(call: Call) -> bool:
        stands = STANDS_FOR.get(call.op)
        asked = call if stands is None else Call(stands, call.args)
        return sort_of(call) is not Sort.HOST and not computes(profile, asked)

    return unwanted


def rewrite_rows(
    term: Term, unwanted: Callable[[Call], bool], bounds: Mapping[str, Box] | None = None, width: int = WIDTH
) -> Rewriting:
    """The cheapest equal term without unwanted calls and, where `bounds` of the inputs are given, within the format.

    As `rewrite`: without a way to be rid of an unwanted call the term is left as it is.
    """

    leaves: dict[Call, bool] = {}

    def beyond(call: Call) -> bool:
        if call not in leaves:
            leaves[call] = bounds is not None and not stays_within(call, bounds, width)
        return leaves[call]

    return rewrite(term, lambda call: unwanted(call) or beyond(call), BESIDE, cost_of_rows)
