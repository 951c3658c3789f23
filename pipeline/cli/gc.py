"""`spyre-factory gc`: remove what is no longer needed."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.cli.output import one_sentence, print_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("gc")(gc)


def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Remove artefacts past their retention, expired keys and sessions, and old logs. Evidence of adapters stays."""
    from pipeline.settings import get_settings
    from pipeline.storage.gc import collect

    with one_sentence():
        done = collect(get_settings(), dry_run=dry_run)
    if as_json:
        print_json({"dry_run": dry_run, **done.to_dict()})
        return
    for name, count in done.counts.items():
        typer.echo(f"{count:>8}  {name}")
    typer.echo(f"{done.bytes:,} bytes {'would be' if dry_run else 'are'} freed.")
