"""`spyre-factory keys show | rotate`: the public key that users pin, with its fingerprint, and a new one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.output import one_sentence, print_json, write_file


def register(app: typer.Typer) -> None:
    """Add the `keys` group."""
    group = typer.Typer(no_args_is_help=True, help="The key that signs bundles.")
    group.command("show")(show)
    group.command("rotate")(rotate)
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


def rotate(
    file: Annotated[Path | None, typer.Option("--handover", help="Where to write the handover for users.")] = None,
    compromised: Annotated[bool, typer.Option("--compromised", help="Others may have the key: no handover.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Sign with a new key from now on. Users of the former one take the new one by the handover it has signed.

    After `--compromised` there is none: they pin the new key by its fingerprint, and unpin the former.
    """
    from pipeline.errors import BadInput
    from pipeline.releases.signing import fingerprint, handover, rotate_key, signing_key
    from pipeline.settings import get_settings

    settings = get_settings()
    with one_sentence():
        if (file is None) is not compromised:
            raise BadInput("Give --handover FILE, or --compromised if others may have the key.")
        if file is not None:
            write_file(file, b"")  # a place that cannot be written to is found before the key is another
        former = rotate_key(settings)
        key = signing_key(settings)
        if file is not None:
            write_file(file, handover(former, key))
    found = {"former": fingerprint(former), "fingerprint": fingerprint(key), "handover": file and str(file)}
    if as_json:
        print_json(found)
        return
    typer.echo(f"New key {found['fingerprint']}; the former was {found['former']}.")
    typer.echo(f"Handover written to {file}." if file else "Tell users to pin the new key and to unpin the former.")
