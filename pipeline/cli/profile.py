"""`spyre-factory profile list | show NAME | diff A B`: the dated device profiles of the simulator."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.output import one_sentence, print_json

if TYPE_CHECKING:
    from sim_backend.profiles import Profile

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def register(app: typer.Typer) -> None:
    """Add the `profile` group."""
    group = typer.Typer(no_args_is_help=True, help="Device profiles: what a dated state of the stack has.")
    group.command("list")(list_all)
    group.command("show")(show)
    group.command("diff")(diff)
    app.add_typer(group, name="profile")


def list_all(as_json: Json = False) -> None:
    """List the profiles, oldest first."""
    from pipeline.profiles import summary
    from sim_backend.profiles import ALIASES, DEFAULT, list_profiles

    aliases = {name: alias for alias, name in ALIASES.items()}
    rows = [summary(_load(name)) for name in list_profiles()]
    rows = [{**row, "default": row["name"] == DEFAULT, "alias": aliases.get(row["name"])} for row in rows]
    if as_json:
        print_json({"profiles": rows})
        return
    for row in rows:
        marks = [mark for mark in ("default" if row["default"] else None, row["alias"]) if mark]
        mark = f" ({', '.join(marks)})" if marks else ""
        typer.echo(f"{row['name']:<17} {row['cut_date']}  {row['digest'][:12]}  {row['description']}{mark}")


def show(name: Annotated[str, typer.Argument(help="Name or alias of a profile.")], as_json: Json = False) -> None:
    """Print one profile: its op table, formats, limits and defects, and every parameter with its reason."""
    from pipeline.profiles import summary
    from sim_backend.profiles.parameters import parameters_of

    profile = _load(name)
    parameters = parameters_of(profile)
    if as_json:
        print_json({**summary(profile), "simulator": profile.simulator, **_resolved(profile), "parameters": parameters})
        return
    typer.echo(f"{profile.name}, {profile.content['description']}, digest {profile.digest}")
    letters = Counter(text for text in profile.to_dict()["ops"].values())
    typer.echo(f"op table: {sum(letters.values())} rows; {', '.join(f'{n} x {c}' for c, n in letters.most_common())}")
    typer.echo(f"defects on: {', '.join(sorted(profile.errata)) or 'none'}")
    for path, parameter in parameters.items():
        typer.echo(f"  {path} = {parameter['value']}: {parameter['reason']}")


def diff(
    first: Annotated[str, typer.Argument(help="Name of a profile.")],
    second: Annotated[str, typer.Argument(help="Name of the profile to compare it with.")],
    as_json: Json = False,
) -> None:
    """Print what differs between two profiles, key by key."""
    from sim_backend.profiles import diff as compare

    one, other = _load(first), _load(second)
    changes = compare(one, other)
    if as_json:
        table = {path: {one.name: a, other.name: b} for path, (a, b) in changes.items()}
        print_json({"profiles": [one.name, other.name], "changes": table})
        return
    for path, (a, b) in changes.items():
        typer.echo(f"{path}: {a} -> {b}")
    typer.echo(f"{len(changes)} differences between {one.name} and {other.name}.")


def _load(name: str) -> Profile:
    """The profile of that name, or one sentence and exit code 1."""
    from pipeline.profiles import find_profile

    with one_sentence():
        return find_profile(name)


def _resolved(profile: Profile) -> dict[str, Any]:
    content = profile.to_dict()
    return {key: value for key, value in content.items() if key not in ("description", "cut_date")}
