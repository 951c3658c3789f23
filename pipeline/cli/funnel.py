"""The table of a sweep as people read it: a row per model, what stock does, what the adapter does, and the funnel."""

from __future__ import annotations

from typing import Any

WIDTHS = (46, 34)


def table_of(report: dict[str, Any]) -> list[str]:
    """The lines of a sweep's table, the funnel last."""
    head = f"{'MODEL':<{WIDTHS[0]}}{'STOCK':<{WIDTHS[1]}}WITH ADAPTER"
    return [head, *(row_of(row) for row in report["models"]), funnel_of(report["funnel"])]


def row_of(row: dict[str, Any]) -> str:
    """One model."""
    weights = f" ({row['weights']} weights)" if row["weights"] else ""
    name = f"{row['model'].rsplit('/', 1)[-1]}{weights}"
    return f"{cut(name, WIDTHS[0]):<{WIDTHS[0]}}{cut(stock_of(row), WIDTHS[1]):<{WIDTHS[1]}}{with_adapter(row)}"


def stock_of(row: dict[str, Any]) -> str:
    """What the stock model does: passes, or how many causes stand against it."""
    stock = row.get("stock")
    if stock is None:
        return "-"
    if stock["outcome"] != "failed":
        return str(stock["outcome"])
    causes = f"{stock['causes']} cause{'' if stock['causes'] == 1 else 's'}"
    return ", ".join([causes, *stock["kinds"]][:3]) if stock["causes"] else stock["reason"]


def with_adapter(row: dict[str, Any]) -> str:
    """What becomes of the model: passed with its lowest token cosine, waits for review, or why not."""
    if row.get("waiting_candidate"):
        return f"waits for your review (candidate {row['waiting_candidate']})"
    if row["outcome"] == "passed":
        cosine = row.get("worst_token_cosine")
        measured = f", lowest token cosine {cosine:.5f}" if cosine is not None else ""
        depth = f", depth {row['depth']}" if row["depth"] else ""
        return f"passed{'' if row['adapter'] else ' as it is'}{measured}{depth}"
    return cut(f"{row['outcome']}: {row['reason']}", 90)


def funnel_of(funnel: dict[str, int]) -> str:
    """The funnel in one line; what is zero is left out where it can be."""
    ends = [
        f"{funnel['waiting']} wait{'s' if funnel['waiting'] == 1 else ''} for you",
        f"{funnel['failed']} failed",
        *(f"{funnel[name]} {label}" for name, label in ENDS if funnel[name]),
    ]
    return f"{funnel['listed']} listed > {funnel['captured']} captured > {funnel['passed']} passed · {' · '.join(ends)}"


ENDS = (("unknown", "unknown"), ("infra", "our fault, will be retried"))


def next_step(report: dict[str, Any], dashboard: str) -> str:
    """What to do next, one sentence."""
    waiting = next((row["waiting_candidate"] for row in report["models"] if row.get("waiting_candidate")), None)
    return f"Next: open {dashboard}/review/{waiting}" if waiting else f"Next: open {dashboard}"


def cut(text: str, width: int) -> str:
    """`text` in less than `width` characters."""
    return text if len(text) < width else f"{text[: width - 2]}…"
