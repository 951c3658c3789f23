"""E-24: a product one of whose tensors is, on one core, beyond what the hardware addresses (facts 4.5).

Loops and the other native operations of a bundle are held against the same limit by `compiler.spans`.
"""

from __future__ import annotations

import logging

from sim_backend.compiler.division import SPAN_LIMIT, Span, cores_in_use, product_span
from sim_backend.errata.rule import Abort, Call, Rule
from sim_backend.profiles import Profile

PRODUCTS = frozenset(["aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm"])
_log = logging.getLogger("sim_backend.work_division")
_MB = 1 << 20


class SpanAbort(Abort):
    """The compiler logs what it cannot divide and goes on; the backend compiler then dies, of what is not published."""

    def error(self, detail: str) -> Exception:
        """What is raised, after the two log lines of facts 3.7."""
        _log.warning("Cannot satisfy span limit of %.2f MB", SPAN_LIMIT / _MB)
        _log.critical("%s", detail)
        return super().error(detail)

    def message(self, detail: str) -> str:
        """The text of what is raised, with the critical line."""
        return f"{super().message(detail)} {detail}"


EFFECT = SpanAbort("")


def product_problem(profile: Profile, call: Call) -> str | None:
    """The device's critical line for a product of [.., m, k] and [.., k, n] that cannot be divided, or None.

    Shapes that were reported to fail although the published steps divide them are a parameter, with their spans.
    """
    left, right = call.operands[-2:]
    k, n = right.shape[-2:]
    for reported_n, reported_k, megabytes in profile.errata["E-24"]["reported"]:
        if (n, k) == (reported_n, reported_k):
            return Span(f"B {[k, n]}", megabytes * _MB, {}).text
    span = product_span(left.shape, right.shape, left.dtype, cores_in_use(profile.cores))
    return None if span.fits else span.text


RULES: tuple[Rule, ...] = (Rule("E-24", PRODUCTS, product_problem, EFFECT),)
