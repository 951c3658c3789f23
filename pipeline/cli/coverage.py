"""`spyre-factory coverage`: how many models are supported and passing, by count and by downloads."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pipeline.cli import remote
from pipeline.cli.output import one_sentence, print_json
from pipeline.settings import get_settings


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("coverage")(coverage)


def coverage(
    profile: Annotated[str | None, typer.Option("--profile", help="Device profile.")] = None,
    by: Annotated[str | None, typer.Option("--by", help="family, op, release or profile.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Print the coverage of the stored models; real and synthetic weights are never added up."""
    from pipeline.database.migrate import require_current
    from pipeline.database.unit_of_work import reading
    from pipeline.sweeps.coverage import coverage as compute
    from pipeline.sweeps.schemas import checked

    with one_sentence():
        group = checked("--by", by, ("family", "op", "release", "profile")) if by else None
        if (served := remote.service()) is not None:
            report = served.coverage(profile, group)
        else:
            require_current()
            with reading() as session:
                report = compute(session, profile or get_settings().profile, group)
    if as_json:
        print_json(report)
    else:
        print_report(report)


def print_report(report: dict[str, Any]) -> None:
    """The five figures by count and by downloads, then the groups."""
    if report["demo"]:
        typer.echo("This database is a demonstration: its figures mean nothing.")
    typer.echo(f"{report['profile']:<22}{'MODELS':>8}{'DOWNLOADS':>18}")
    for name in ("total", "supported", "passing_real", "passing_synthetic", "truncated"):
        typer.echo(f"{name.replace('_', ' '):<22}{report[name]:>8}{report['by_downloads'][name]:>18,}")
    for group in report["groups"]:
        passing = group["passing_real"] + group["passing_synthetic"]
        typer.echo(f"  {group['name']:<60}{group['total']:>6} models, {passing} passing")
