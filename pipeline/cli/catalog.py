"""`spyre-factory catalog list | refresh | import`: which models there are. Listing the starter needs no database."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from pipeline.errors import FactoryError

STORE = "pipeline.sweeps.catalogue_store:open_store"
"""Where `refresh` and `import` find the database's implementation of `CatalogueStore`."""

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Top = Annotated[int | None, typer.Option("--top", min=1, help="Only the first models.")]


def register(app: typer.Typer) -> None:
    """Adds the `catalog` group."""
    group = typer.Typer(no_args_is_help=True, help="Which models there are.")
    group.command("list")(list_models)
    group.command("refresh")(refresh)
    group.command("import")(import_catalogue)
    app.add_typer(group, name="catalog")


def list_models(
    catalog: Annotated[str, typer.Option("--catalog", help="starter, hub or a file.")] = "starter",
    top: Top = None,
    as_json: Json = False,
) -> None:
    """List the models of a catalogue with rank, downloads and the reason of each dropped one."""
    from pipeline.catalogue.service import load_catalogue

    entries = _guarded(lambda: load_catalogue(catalog, top))
    if as_json:
        typer.echo(json.dumps({"catalog": catalog, "models": [e.to_dict() for e in entries]}))
        return
    for e in entries:
        note = e.dropped_reason or f"{e.model_type or '?'}, {_millions(e.parameters)}"
        typer.echo(f"{e.rank:>6}  {e.downloads:>12,}  {e.model_id:<64}  {note}")


def refresh(
    top: Annotated[int, typer.Option("--top", min=1, help="Models to list.")] = 1000, as_json: Json = False
) -> None:
    """List the most downloaded embedding models of the Hub and keep the result as a snapshot."""
    from pipeline.catalogue import service

    _report(_guarded(lambda: service.refresh(_store(), top)), as_json)


def import_catalogue(
    file: Annotated[Path, typer.Argument(help="A .jsonl or .jsonl.gz file.")],
    configs: Annotated[Path | None, typer.Option("--configs", help="The file of configurations.")] = None,
    top: Top = None,
    as_json: Json = False,
) -> None:
    """Import a catalogue file and keep it as a snapshot."""
    from pipeline.catalogue.file_import import import_file
    from pipeline.catalogue.service import keep

    _report(_guarded(lambda: keep(_store(), file.name, import_file(file, configs, top=top))), as_json)


def _store() -> Any:
    module, _, name = STORE.partition(":")
    return getattr(importlib.import_module(module), name)()


def _guarded(work: Callable[[], Any]) -> Any:
    """The result; an error of ours ends the command with its sentence and exit code 1."""
    try:
        return work()
    except FactoryError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


def _report(stored: Any, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(stored._asdict()))
        return
    state = "kept" if stored.fresh else "already there"
    typer.echo(
        f"snapshot {stored.snapshot_id} {state}: {stored.listed} models listed, {stored.dropped} of them dropped; "
        f"{stored.entered} entered, {stored.left} left, {stored.moved} moved"
    )


def _millions(parameters: int | None) -> str:
    return "size unknown" if parameters is None else f"{parameters / 1e6:,.0f} M parameters"
