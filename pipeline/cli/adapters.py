"""`spyre-factory adapters list | show | export | verify | withdraw | withdrawals`: what is released."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pipeline.cli import remote
from pipeline.cli.output import one_sentence, print_json, write_file

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
ROW = ("id", "name", "version", "origin", "state", "family", "profile", "digest", "scripted")
Number = Annotated[int, typer.Argument(help="Number of the adapter.")]


def register(app: typer.Typer) -> None:
    """Add the `adapters` group."""
    group = typer.Typer(no_args_is_help=True, help="Released adapters.")
    group.command("list")(list_all)
    group.command("show")(show)
    group.command("export")(export)
    group.command("verify")(verify)
    group.command("withdraw")(withdraw)
    group.command("withdrawals")(withdrawals)
    app.add_typer(group, name="adapters")


def list_all(as_json: Json = False) -> None:
    """List all adapters, newest first."""
    from pipeline.database.unit_of_work import reading
    from pipeline.releases.repository import list_adapters

    with one_sentence():
        if (served := remote.service()) is not None:
            rows = [{name: row[name] for name in ROW} for row in served.adapters()]
        else:
            with reading() as session:
                rows = [_row(adapter) for adapter in list_adapters(session)]
    if as_json:
        print_json({"adapters": rows})
        return
    for row in rows:
        mark = " (scripted)" if row["scripted"] else ""
        typer.echo(
            f"{row['id']:>4}  {row['name']} v{row['version']}  {row['origin']}  {row['state']}  {row['profile']}{mark}"
        )


def show(number: Number, as_json: Json = False) -> None:
    """Print an adapter's manifest."""
    manifest = _manifest(number)
    if as_json:
        print_json(manifest)
        return
    typer.echo(f"{manifest['name']} v{manifest['version']} for {manifest['profile']}, digest {manifest['digest']}")
    for patch in manifest["patches"]:
        typer.echo(f"  {patch['pattern']} {patch['parameters']} by {patch.get('drafter')}")
    for member in manifest.get("members") or ():
        taken = [manifest["patches"][one["patch"]]["pattern"] for one in member["patches"]]
        typer.echo(f"  {member['family']} takes {', '.join(taken)}")


def export(
    number: Number,
    file: Annotated[Path, typer.Argument(help="Where to write it.")],
    manifest: Annotated[bool, typer.Option("--manifest", help="The plain manifest, not signed.")] = False,
    bundled: Annotated[bool, typer.Option("--bundled", help="The manifest of one that ships with the package")] = False,
) -> None:
    """Write an adapter as a signed bundle for `load_bundle`, with its lockfile and the list of withdrawals."""
    from pipeline.database.unit_of_work import reading
    from pipeline.releases.bundles import bundle_of
    from pipeline.releases.signing import signing_key
    from pipeline.settings import get_settings

    with one_sentence():
        if manifest or bundled:
            content = _manifest_text(number, bundled)
        elif (served := remote.service()) is not None:
            content = served.bundle(number)
        else:
            with reading() as session:
                content = bundle_of(session, number, signing_key(get_settings()))
        write_file(file, content)
    typer.echo(f"Written to {file}.")


def verify(
    file: Annotated[Path, typer.Argument(help="The bundle.")],
    as_json: Json = False,
) -> None:
    """Check a bundle as `load_bundle` would: signers pinned for this user, and this installation's own key."""
    from adapters.errors import AdapterError
    from adapters.releases.bundle import open_bundle
    from adapters.releases.trust import fingerprint_of, stored_trust
    from pipeline.errors import BadInput
    from pipeline.releases.signing import public_pem, signing_key
    from pipeline.settings import get_settings

    with one_sentence():
        key = signing_key(get_settings())
        try:
            trust = stored_trust()
            trust.pin(public_pem(key), fingerprint_of(key.public_key()))
            found = open_bundle(_content(file), trust)
        except AdapterError as error:
            raise BadInput(f"{file}: {error.code}: {error}.") from error
    if as_json:
        print_json({"file": str(file), **found.summary(), "evidence": list(found.evidence)})
    else:
        typer.echo(f"{file} holds {found.name} {found.version} for {found.profile}, digest {found.digest}.")


def withdrawals(
    file: Annotated[Path, typer.Argument(help="Where to write the list.")],
    signer: Annotated[str | None, typer.Option(help="Fingerprint of a former key, for who has its bundles.")] = None,
) -> None:
    """Write the signed list of withdrawn adapters for `load_withdrawals`."""
    from pipeline.database.unit_of_work import reading
    from pipeline.releases.bundles import withdrawal_list
    from pipeline.releases.signing import former_key, signing_key
    from pipeline.settings import get_settings

    with one_sentence():
        key = former_key(get_settings(), signer) if signer else signing_key(get_settings())
        with reading() as session:
            content = withdrawal_list(session, key)
        write_file(file, content)
    typer.echo(f"Written to {file}.")


def _manifest_text(number: int, bundled: bool) -> bytes:
    """The manifest as JSON. Its digest does not cover the origin, so a bundled copy keeps it."""
    import json

    from pipeline.errors import BadInput
    from pipeline.review.models import SCRIPTED

    manifest = _manifest(number)
    if bundled and any(patch.get("model") == SCRIPTED for patch in manifest["patches"]):
        raise BadInput(f"Adapter {number} was drafted by the scripted endpoint: it is a demonstration only.")
    origin = {"origin": "bundled"} if bundled else {}
    return (json.dumps({**manifest, **origin}, indent=2, ensure_ascii=False) + "\n").encode()


def _content(file: Path) -> bytes:
    from pipeline.errors import BadInput

    try:
        return file.read_bytes()
    except OSError as error:
        raise BadInput(f"Cannot read {str(file)!r}: {error.strerror}.") from error


def withdraw(
    number: Number,
    reason: Annotated[str, typer.Option("--reason", help="Why, in one sentence.")],
    as_json: Json = False,
) -> None:
    """Take a release back; the checkpoints it served run again without it."""
    from pipeline.database.accounts import local_reviewer
    from pipeline.database.unit_of_work import unit_of_work
    from pipeline.releases.repository import get_adapter
    from pipeline.review.service import withdraw_adapter

    with one_sentence(), unit_of_work() as session:
        done = withdraw_adapter(session, number, local_reviewer(session), reason=reason)
        result = {**_row(get_adapter(session, number)), "runs": [run.id for run in done.runs]}
    if as_json:
        print_json(result)
    else:
        typer.echo(f"Withdrawn; {len(result['runs'])} checkpoints run again.")


def _manifest(number: int) -> dict[str, Any]:
    from pipeline.database.unit_of_work import reading
    from pipeline.releases.repository import get_adapter

    with one_sentence():
        if (served := remote.service()) is not None:
            return dict(served.adapter(number)["manifest"])
        with reading() as session:
            return get_adapter(session, number).manifest


def _row(adapter: Any) -> dict[str, Any]:
    return {name: getattr(adapter, name) for name in ROW}
