"""`spyre-factory agents bench`: a drafter's score over tasks that everybody has."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

import typer


class BenchDrafter(StrEnum):
    """Who drafts."""

    RULES = "rules"
    LLM = "llm"
    NULL = "null"
    ECHO = "echo"


class BenchSplit(StrEnum):
    """Which tasks: the public ones, or drawn from a seed."""

    PUBLIC = "public"
    FRESH = "fresh"


def bench(
    drafter: Annotated[BenchDrafter, typer.Option("--drafter", help="Who drafts.")] = BenchDrafter.RULES,
    split: Annotated[BenchSplit, typer.Option("--split", help="The public tasks, or fresh ones.")] = BenchSplit.PUBLIC,
    seed: Annotated[int, typer.Option("--seed", min=0, help="What fresh tasks are drawn from.")] = 0,
    hide: Annotated[list[str] | None, typer.Option("--hide", help="A pattern the drafter must not use.")] = None,
    limit_usd: Annotated[float, typer.Option("--limit-usd", min=0, help="What a language model may cost.")] = 0.0,
    show: Annotated[bool, typer.Option("--table", help="Show the stored scores by model and run nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Measure a drafter: tasks solved at 1 and at k candidates, what it used, by pattern. The result is stored."""
    from pipeline.bench.score import store, table
    from pipeline.settings import get_settings

    folder = get_settings().data_dir
    if show:
        rows = table(folder)
        typer.echo(json.dumps(rows) if as_json else _table(rows))
        return
    found = measure(drafter.value, split.value, seed, frozenset(hide or ()), limit_usd)
    if found["overall"] != "not measured":
        store(folder, found)
    typer.echo(json.dumps(found) if as_json else _sentence(found))


def measure(drafter: str, split: str, seed: int, hidden: frozenset[str], limit_usd: float) -> dict[str, Any]:
    """The report of one run."""
    from pipeline.bench.run import DRAFTERS, K, run_bench
    from pipeline.bench.score import not_measured, report
    from pipeline.bench.tasks import load_tasks

    tasks = load_tasks(split, seed)  # type: ignore[arg-type]
    if drafter != "llm":
        return report(drafter, None, split, seed, run_bench(DRAFTERS[drafter], tasks, hidden), K)
    from pipeline.bench.language import LanguageBench
    from pipeline.bench.tasks import FormTask
    from pipeline.execution.draft import language_model

    model = language_model()
    if model is None or (why := model.settings.why_off()) is not None or limit_usd <= 0:
        reason = "no endpoint is set" if model is None else why or "a model may cost nothing: set --limit-usd"
        return not_measured(drafter, split, reason)
    language = LanguageBench(model, limit_usd)
    forms = [task for task in tasks if isinstance(task, FormTask)]
    results = run_bench(language, forms, hidden, spent=language.spent)
    return report(drafter, model.settings.model, split, seed, results, K)


def _sentence(found: dict[str, Any]) -> str:
    if found["overall"] == "not measured":
        return f"{found['drafter']}: not measured: {found['reason']}"
    lines = [_row("pattern", ("tasks", "at 1", "95 % interval", "at k", "seconds"))]
    for name, figures in {**found["by_pattern"], "all": found["overall"]}.items():
        low, high = figures["interval_at_1"]
        cells = (
            figures["tasks"],
            f"{figures['share_at_1']:.0%}",
            f"{low:.0%} to {high:.0%}",
            f"{figures['share_at_k']:.0%}",
            figures["median_draft_seconds"],
        )
        lines.append(_row(name, cells))
    failed = [r for r in found["results"] if r["solved_at"] is None]
    return "\n".join([*lines, *(f"not solved: {r['id']}: {r['reason'][:200]}" for r in failed[:10])])


def _table(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "No score is stored yet: run `spyre-factory agents bench`."
    lines = [_row("model", ("split", "tasks", "at 1", "95 % interval", "USD"))]
    for row in rows:
        low, high = row["interval_at_1"]
        cost = "unknown" if row["cost_usd"] is None else f"{row['cost_usd']:.2f}"
        lines.append(
            _row(
                row["model"], (row["split"], row["tasks"], f"{row['share_at_1']:.0%}", f"{low:.0%} to {high:.0%}", cost)
            )
        )
    return "\n".join(lines)


def _row(name: str, cells: tuple[Any, ...]) -> str:
    return f"{name:<24}" + "".join(f"{cell!s:>16}" for cell in cells)
