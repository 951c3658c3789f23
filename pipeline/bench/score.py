"""Scores of a bench run: solved at 1 and at k with 95 % intervals, what was used, by pattern."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from pipeline.bench.run import Result
from pipeline.bench.scores import NOT_MEASURED

Z = 1.959963984540054


def interval(solved: int, tasks: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a share (Wilson 1927). Raises ValueError without tasks."""
    if tasks < 1:
        raise ValueError("a share of no tasks is not known")
    share, spread = solved / tasks, Z * Z / tasks
    middle = (share + spread / 2) / (1 + spread)
    half = Z / (1 + spread) * math.sqrt(share * (1 - share) / tasks + spread / (4 * tasks))
    return max(0.0, middle - half), min(1.0, middle + half)


def score(results: Sequence[Result], k: int) -> dict[str, Any]:
    """The figures of some tasks."""
    at_1 = sum(r.solved_at == 1 for r in results)
    at_k = sum(r.solved_at is not None and r.solved_at <= k for r in results)
    costs = [r.spent.cost_usd for r in results]
    ratios = [r.cost_ratio for r in results if r.cost_ratio is not None]
    return {
        "tasks": len(results),
        "solved_at_1": at_1,
        "share_at_1": round(at_1 / len(results), 4),
        "interval_at_1": [round(v, 4) for v in interval(at_1, len(results))],
        "k": k,
        "solved_at_k": at_k,
        "share_at_k": round(at_k / len(results), 4),
        "interval_at_k": [round(v, 4) for v in interval(at_k, len(results))],
        "turns": sum(r.spent.turns for r in results),
        "tokens": sum(r.spent.tokens for r in results),
        "cost_usd": None if None in costs else round(sum(c for c in costs if c is not None), 6),
        "median_draft_seconds": round(statistics.median(r.draft_seconds for r in results), 4),
        "median_judge_seconds": round(statistics.median(r.judge_seconds for r in results), 4),
        "largest_cost_ratio": max(ratios) if ratios else None,
        "solved_with_proof": sum(r.proved for r in results),
    }


def report(
    drafter: str, model: str | None, split: str, seed: int, digest: str, results: Sequence[Result], k: int
) -> dict[str, Any]:
    """The whole report of a run over the tasks with this `digest`: figures over all, by pattern, and every task."""
    patterns = sorted({r.pattern for r in results})
    return {
        "drafter": drafter,
        "model": model or drafter,
        "split": split,
        "seed": seed if split == "fresh" else None,
        "tasks_digest": digest,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "overall": score(results, k),
        "by_pattern": {p: score([r for r in results if r.pattern == p], k) for p in patterns},
        "results": [asdict(r) for r in results],
    }


def not_measured(drafter: str, split: str, reason: str) -> dict[str, Any]:
    """The report of a drafter that could not be asked: never a score of 0."""
    return {"drafter": drafter, "model": NOT_MEASURED, "split": split, "overall": NOT_MEASURED, "reason": reason}


def scripted(found: dict[str, Any]) -> dict[str, Any]:
    """A report of the scripted endpoint: its script holds answers, so what the loop did is told and nothing scored."""
    ends = Counter(r["end"] or "no candidate" for r in found["results"])
    loop = {**{key: found["overall"][key] for key in ("tasks", "turns", "tokens", "cost_usd")}, "ends": dict(ends)}
    kept = {key: value for key, value in found.items() if key not in ("by_pattern", "results")}
    return {
        **kept,
        "overall": NOT_MEASURED,
        "reason": "the scripted endpoint measures the loop, no skill",
        "loop": loop,
    }
