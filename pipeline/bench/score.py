"""Scores of a bench run: solved at 1 and at k with 95 % intervals, what was used, by pattern; tabled by model."""

from __future__ import annotations

import json
import math
import os
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.bench.run import Result

NOT_MEASURED = "not measured"
FOLDER = "bench"
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


def report(drafter: str, model: str | None, split: str, seed: int, results: Sequence[Result], k: int) -> dict[str, Any]:
    """The whole report of a run: figures over all, by pattern, and every task."""
    patterns = sorted({r.pattern for r in results})
    return {
        "drafter": drafter,
        "model": model or drafter,
        "split": split,
        "seed": seed if split == "fresh" else None,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "overall": score(results, k),
        "by_pattern": {p: score([r for r in results if r.pattern == p], k) for p in patterns},
        "results": [asdict(r) for r in results],
    }


def not_measured(drafter: str, split: str, reason: str) -> dict[str, Any]:
    """The report of a drafter that could not be asked: never a score of 0."""
    return {"drafter": drafter, "model": NOT_MEASURED, "split": split, "overall": NOT_MEASURED, "reason": reason}


def store(folder: Path, found: dict[str, Any]) -> Path:
    """Stores a report under the data directory, whole or not at all."""
    target = folder / FOLDER / f"{found['at'].replace(':', '')}-{found['drafter']}-{found['split']}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_suffix(".tmp")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(found, file)
        file.flush()
        os.fsync(file.fileno())
    return temporary.replace(target)


def table(folder: Path) -> list[dict[str, Any]]:
    """The newest stored score of each model and split, best first."""
    newest: dict[tuple[str, str], dict[str, Any]] = {}
    for path in sorted((folder / FOLDER).glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        newest[found["model"], found["split"]] = found
    rows = [{**{key: f[key] for key in ("model", "drafter", "split", "at")}, **f["overall"]} for f in newest.values()]
    return sorted(rows, key=lambda row: (-row["share_at_1"], row["model"]))
