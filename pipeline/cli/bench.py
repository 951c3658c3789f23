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
    if show:
        rows = _stored_scores()
        typer.echo(json.dumps(rows) if as_json else _table(rows))
        return
    found = measure(drafter.value, split.value, seed, frozenset(hide or ()), limit_usd)
    found = {**found, **_store(found)}
    typer.echo(json.dumps(found) if as_json else _sentence(found))


def _stored_scores() -> list[dict[str, Any]]:
    from pipeline.bench.scores import score_table
    from pipeline.cli.output import one_sentence
    from pipeline.database.unit_of_work import reading

    with one_sentence(), reading() as session:
        return score_table(session)


def _store(found: dict[str, Any]) -> dict[str, Any]:
    """The score's number in the database, or why it has none: measuring needs no database, storing does."""
    from pipeline.bench.scores import is_measured, store_score
    from pipeline.database.unit_of_work import unit_of_work
    from pipeline.errors import FactoryError

    if not is_measured(found):
        return {"stored": None}
    try:
        with unit_of_work() as session:
            return {"stored": store_score(session, found).id}
    except FactoryError as error:
        return {"stored": None, "not_stored": str(error)}


def measure(drafter: str, split: str, seed: int, hidden: frozenset[str], limit_usd: float) -> dict[str, Any]:
    """The report of one run."""
    from pipeline.bench.run import DRAFTERS, K, run_bench
    from pipeline.bench.score import report
    from pipeline.bench.tasks import digest_of_tasks, load_tasks

    tasks = load_tasks(split, seed)  # type: ignore[arg-type]
    if drafter == "llm":
        return _measure_language(tasks, split, seed, hidden, limit_usd)
    results = run_bench(DRAFTERS[drafter], tasks, hidden)
    return report(drafter, None, split, seed, digest_of_tasks(tasks), results, K)


def _measure_language(
    tasks: list[Any], split: str, seed: int, hidden: frozenset[str], limit_usd: float
) -> dict[str, Any]:
    from agents.drafters.llm.settings import SCRIPTED_MODEL
    from pipeline.bench.language import LanguageBench, measurable
    from pipeline.bench.model_child import ModelChild
    from pipeline.bench.run import K, run_bench
    from pipeline.bench.score import not_measured, report, scripted
    from pipeline.bench.tasks import digest_of_tasks
    from pipeline.drafting.endpoint import language_model

    model = language_model()
    why = "no endpoint is set" if model is None else model.settings.why_off()
    if why is not None or limit_usd <= 0:
        return not_measured("llm", split, why or "a model may cost nothing: set --limit-usd")
    asked, child = measurable(tasks), ModelChild()
    language = LanguageBench(model, limit_usd, child)
    found = report(
        "llm", model.settings.model, split, seed, digest_of_tasks(asked),
        run_bench(language, asked, hidden, spent=language.spent, child=child), K,
    )  # fmt: skip
    return scripted(found) if model.settings.model == SCRIPTED_MODEL else found


def _sentence(found: dict[str, Any]) -> str:
    if found["overall"] == "not measured":
        loop = f"; the loop: {json.dumps(found['loop'])}" if "loop" in found else ""
        return f"{found['drafter']}: not measured: {found['reason']}{loop}"
    stored = [] if found.get("stored") else [f"not stored: {found.get('not_stored', '')}"]
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
    return "\n".join([*lines, *stored, *(f"not solved: {r['id']}: {r['reason'][:200]}" for r in failed[:10])])


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
