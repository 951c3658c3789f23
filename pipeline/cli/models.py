"""`spyre-factory models`: the models that are known here and where each stands."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pipeline.cli import remote
from pipeline.cli.output import one_sentence, print_json
from pipeline.settings import get_settings

OUTCOMES = ("passed", "failed", "infra", "unknown", "not_run")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("models")(models)


def models(
    search: Annotated[str, typer.Option("--search", help="Part of the name.")] = "",
    outcome: Annotated[str | None, typer.Option("--outcome", help=f"One of {', '.join(OUTCOMES)}.")] = None,
    profile: Annotated[str | None, typer.Option("--profile", help="Device profile.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many, most downloaded first.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List models, most downloaded first."""
    from pipeline.sweeps.schemas import checked

    with one_sentence():
        wanted = checked("--outcome", outcome, OUTCOMES) if outcome else None
        served = remote.service()
        rows = served.models(profile, wanted, search, limit) if served else _stored(profile, wanted, search, limit)
    if as_json:
        print_json({"models": rows})
        return
    for row in rows:
        typer.echo(f"{row['downloads']:>14,}  {row['outcome']:<8} {row['weights'] or '':<10} {row['model']}")


def _stored(profile: str | None, outcome: str | None, search: str, limit: int) -> list[dict[str, Any]]:
    from pipeline.database.migrate import require_current
    from pipeline.database.unit_of_work import reading
    from pipeline.sweeps.repository import page_of_models

    require_current()
    with reading() as session:
        found = page_of_models(session, profile or get_settings().profile, search, None, None, None)
        rows = ((model, status, status.outcome if status else "not_run") for model, status in found)
        kept = [(model, status, word) for model, status, word in rows if outcome in (None, word)]
        return [_row(model, status, word) for model, status, word in kept[:limit]]


def _row(model: Any, status: Any, outcome: str) -> dict[str, Any]:
    told = ("weights", "tier", "depth", "kind", "reason", "supported")
    judged = {name: getattr(status, name) if status else None for name in told}
    return {"model": model.name, "rank": model.rank, "downloads": model.downloads, "outcome": outcome, **judged}
