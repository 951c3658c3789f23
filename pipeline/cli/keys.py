"""`spyre-factory keys show`: the public key that users pin, with its fingerprint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.output import one_sentence, print_json, write_file


def register(app: typer.Typer) -> None:
    """Add the `keys` group."""
    group = typer.Typer(no_args_is_help=True, help="The key that signs bundles.")
    group.callback()(lambda: None)
    group.command("show")(show)
    app.add_typer(group, name="keys")


def show(
    file: Annotated[Path | None, typer.Option("--file", help="Where to write the public key.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Print the fingerprint; give it to users on another way than the file with the public key."""
    from adapters.releases.trust import fingerprint_of
    from pipeline.releases.signing import public_pem, signing_key
    from pipeline.settings import get_settings

    with one_sentence():
        key = signing_key(get_settings())
        fingerprint, pem = fingerprint_of(key.public_key()), public_pem(key)
        if file is not None:
            write_file(file, pem)
    if as_json:
        print_json({"fingerprint": fingerprint, "public_key": pem.decode()})
    else:
        typer.echo(fingerprint if file else f"{fingerprint}\n{pem.decode()}")
