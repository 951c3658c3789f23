"""`spyre-factory db upgrade | check | backup | restore`: the database, its tables and its copies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.output import one_sentence, print_json
from pipeline.settings import get_settings

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def register(app: typer.Typer) -> None:
    """Add the `db` group."""
    group = typer.Typer(no_args_is_help=True, help="The database.")
    group.command("upgrade")(upgrade)
    group.command("check")(check)
    group.command("backup")(backup)
    group.command("restore")(restore)
    app.add_typer(group, name="db")


def upgrade(as_json: Json = False) -> None:
    """Bring the database to this version's tables. Safe to run twice."""
    from pipeline.database import migrate
    from pipeline.work.installation import prepare_installation

    with one_sentence():
        prepare_installation(get_settings())
        revision = migrate.current_revision()
    if as_json:
        print_json({"revision": revision})
    else:
        typer.echo(f"The database is at {revision}.")


def check(as_json: Json = False) -> None:
    """Say whether the database has this version's tables and holds what it must; exit code 1 if not."""
    from pipeline.database import migrate
    from pipeline.database.facts import is_demo
    from pipeline.database.unit_of_work import reading
    from pipeline.work.invariants import broken, violations

    with one_sentence():
        migrate.require_current()
        differs = migrate.differences()
        with reading() as session:
            demo, found = is_demo(session), violations(session)
    report = {"revision": migrate.head_revision(), "differences": differs, "demo": demo, "invariants": found}
    wrong = [*differs, *broken(found)]
    if as_json:
        print_json(report)
    else:
        typer.echo("\n".join(wrong) or f"The database is at {report['revision']}, matches, and holds what it must.")
    if wrong:
        raise typer.Exit(1)


def backup(
    file: Annotated[Path, typer.Argument(help="Where to write the backup.")],
    as_json: Json = False,
) -> None:
    """Copy database and artefacts into one file; the service may go on meanwhile. The signing key is not in it."""
    from pipeline.storage.backup import write_backup

    with one_sentence():
        made = write_backup(get_settings(), file)
    if as_json:
        print_json(made._asdict())
    else:
        what = f"{made.kind} at {made.revision}, {made.artefacts} artefact files"
        typer.echo(f"{made.file}: {what}, {made.bytes:,} bytes.")


def restore(
    file: Annotated[Path, typer.Argument(help="A file that `db backup` wrote.")],
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite what this installation holds.")] = False,
    as_json: Json = False,
) -> None:
    """Bring database and artefacts back, upgrade them to this version, and check them. Nothing may run meanwhile."""
    from pipeline.storage.backup import read_backup

    with one_sentence():
        found = read_backup(get_settings(), file, replace=replace)
    if as_json:
        print_json(found._asdict())
    else:
        well = f"Restored {found.artefacts} artefact files; the database holds what it must."
        typer.echo("\n".join(found.broken) or well)
    if found.broken:
        raise typer.Exit(1)
