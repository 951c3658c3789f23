"""The report over a whole catalogue: funnel, families, reasons, mappings, masks, fixes, costs. Sums only, no row.

Two weightings throughout: rows and downloads. What capability forecasts and what was executed stand apart: `supported`
is the first, `passing` the second, and nothing that was not executed is passing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.catalogue.entry import ConfigMapping
from pipeline.sweeps.standing import Standing, by, tally

TOP = 10
"""Models at the head of the list that hold most of the downloads."""
NAMED_TOP = 100
FIXES = 25
REASON = 240
"""Characters kept of a reason."""
PUBLISHED = frozenset(
    {
        "bert",
        "xlm-roberta",
        "roberta",
        "mpnet",
        "qwen3",
        "modernbert",
        "gemma3_text",
        "qwen2",
        "llama",
        "mistral",
        "gpt_neo",
        "gpt2",
        "gpt_neox",
    }
)
"""Model types that the published adapters cover."""
PUBLISHED_SUPPORTED, PUBLISHED_PASSING = 7_960, 6_804
"""The published result on the same 10,000 models."""


def catalogue_report(standings: Sequence[Standing], costs: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Every section. `costs` are those of the sweep's stages, by stage."""
    return {
        "totals": tally(standings),
        "outside_top": tally(standings[TOP:]),
        "top_without_answer": sum(not standing.explained for standing in standings[:NAMED_TOP]),
        "adapters": len({standing.adapter for standing in standings if standing.supported and standing.adapter}),
        "groups": group_counts(standings),
        "funnel": funnel(standings),
        "by_family": _tallies(by(standings, lambda s: s.family if s.group else "no stock class or no weights for it")),
        "by_adapter": _tallies(by([s for s in standings if s.supported], lambda s: s.adapter or "none needed")),
        "by_reason": reasons(standings),
        "by_confidence": _tallies(by(standings, lambda s: s.entry.config_confidence or "none")),
        "by_mapping": _tallies(by(standings, lambda s: str(s.entry.mapping or "no configuration"))),
        "gated": tally(s for s in standings if s.entry.gated),
        "masks": masks(standings),
        "next_fixes": next_fixes(standings, "downloads"),
        "next_fixes_by_rows": next_fixes(standings, "rows"),
        "calibration": calibration(standings),
        "costs": dict(costs or {}),
    }


def group_counts(standings: Sequence[Standing]) -> dict[str, int]:
    """Groups of rows with one verdict: all, with a forecast that supports them, and executed."""
    groups = by([s for s in standings if s.group], lambda s: str(s.group))
    return {
        "groups": len(groups),
        "supported": sum(any(s.supported for s in group) for group in groups.values()),
        "executed": sum(any(s.executed for s in group) for group in groups.values()),
    }


def funnel(standings: Sequence[Standing]) -> dict[str, dict[str, int]]:
    """What is left after each step, each a tally's rows and downloads."""
    taken = [s for s in standings if s.group]
    matched = [s for s in taken if s.adapter or s.supported]
    steps = {
        "listed": list(standings),
        "with a stock class and loadable weights": taken,
        "an adapter matches, or none is needed": matched,
        "supported: nothing fails in the capability report": [s for s in matched if s.supported],
        "executed at the sweep tier": [s for s in taken if s.executed],
        "passing at the sweep tier": [s for s in taken if s.passing],
        "of these with a plain mapping": [s for s in taken if s.passing and s.plain],
    }
    return {name: {"rows": len(rows), "downloads": _downloads(rows)} for name, rows in steps.items()}


def reasons(standings: Sequence[Standing]) -> list[dict[str, Any]]:
    """Why rows are not supported or failed, the most downloaded first; sentences that differ in names are one.

    A supported row that was not executed yet has no reason.
    """
    bad = [s for s in standings if not s.passing and s.reason]
    found = by(bad, lambda s: f"{s.kind or 'unknown'}: {_general(s.reason)}")
    return [{"reason": name, "rows": len(rows), "downloads": _downloads(rows)} for name, rows in found.items()]


def masks(standings: Sequence[Standing]) -> dict[str, dict[str, int]]:
    """Rows whose stock class masks what comes after a token although the model's own code does not, or may not."""
    kept = [s for s in standings if s.causal]
    known = [s for s in kept if s.entry.bidirectional]
    open_ = [s for s in kept if not s.entry.bidirectional and s.entry.mapping is not ConfigMapping.NATIVE]
    return {
        "its own code attends both ways, the stock class keeps the causal mask": tally(known),
        "code of its own beside a causal stock class, its mask is not known": tally(open_),
    }


def next_fixes(standings: Sequence[Standing], weighting: str) -> list[dict[str, Any]]:
    """What would bring most, by family and what is missing, the largest first by `weighting` (downloads or rows)."""
    missing = [s for s in standings if s.group and not s.passing and not s.supported]
    found = by(missing, lambda s: f"{s.family}\n{s.lacks or (s.causes[0] if s.causes else s.kind or 'not asked')}")
    fixes: list[dict[str, Any]] = [
        {
            "family": name.partition("\n")[0],
            "what is missing": name.partition("\n")[2],
            "groups": len({s.group for s in rows}),
            "rows": len(rows),
            "downloads": _downloads(rows),
        }
        for name, rows in found.items()
    ]
    return sorted(fixes, key=lambda fix: -fix[weighting])[:FIXES]


def calibration(standings: Sequence[Standing]) -> dict[str, Any]:
    """The same count with the published families' adapters only, beside the published result.

    The excess is what the simulator, synthetic weights and stock classes forgive that cards and checkpoints did not.
    """
    covered = [s for s in standings if s.entry.model_type in PUBLISHED]
    counted = tally(covered)
    complete = counted["executed"] == counted["supported"] > 0
    return {
        "rows": counted["rows"],
        "with a configuration": sum(s.group is not None for s in covered),
        "supported": counted["supported"],
        "published supported": PUBLISHED_SUPPORTED,
        "excess supported": counted["supported"] - PUBLISHED_SUPPORTED,
        "executed": counted["executed"],
        "passing": counted["passing"],
        "published passing": PUBLISHED_PASSING,
        "excess passing": counted["passing"] - PUBLISHED_PASSING if complete else "not measured: not all was executed",
    }


def _tallies(found: Mapping[str, Sequence[Standing]]) -> list[dict[str, Any]]:
    return [{"name": name, **tally(rows)} for name, rows in found.items()]


def _downloads(rows: Sequence[Standing]) -> int:
    return sum(s.entry.downloads for s in rows)


def _general(reason: str) -> str:
    """The sentence without names in quotes and without what follows the first cause's place."""
    plain = re.sub(r"'[^']*'", "…", reason)
    plain = re.sub(r"its class .* is never executed", "its class is never executed", plain)
    return re.sub(r"\d+ causes, first: ", "", plain)[:REASON]
