"""`spyre-factory agents trajectories | show | export | import | replay | propose-rules`: conversations, rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from pipeline.cli.output import one_sentence, print_json, write_file
from pipeline.errors import BadInput

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Which = Annotated[str, typer.Argument(help="A trajectory's id, or its beginning.")]


def register(group: typer.Typer) -> None:
    """Add the commands to the `agents` group."""
    group.command("trajectories")(trajectories)
    group.command("show")(show)
    group.command("export")(export)
    group.command("import")(import_)
    group.command("replay")(replay)
    group.command("propose-rules")(propose_rules)


def trajectories(
    top: Annotated[int, typer.Option("--top", min=1, max=1000, help="How many, newest first.")] = 20,
    as_json: Json = False,
) -> None:
    """List the newest conversations of drafting agents."""
    from pipeline.database.unit_of_work import reading
    from pipeline.drafting.trajectories import summaries

    with one_sentence(), reading() as session:
        rows = summaries(session, top)
    if as_json:
        print_json({"trajectories": rows})
        return
    for row in rows:
        ended = row["outcome"] or "not ended"
        typer.echo(f"{row['id'][:12]}  {row['model']}  {row['role']}  {row['target']}  {row['turns']} turns  {ended}")
    if not rows:
        typer.echo("No agent has drafted yet.")


def show(trajectory: Which, as_json: Json = False) -> None:
    """Show one conversation, step by step."""
    document = _stored(trajectory)
    if as_json:
        print_json(document)
        return
    for number, step in enumerate(document["steps"], start=1):
        typer.echo(f"--- step {number}: {step['kind']} {step.get('tool', '')}".rstrip())
        for message in step["messages"]:
            typer.echo(f"[{message.get('role')}] {message.get('content') or ''}")
            for call in message.get("tool_calls") or ():
                typer.echo(f"  calls {call['function']['name']} {call['function']['arguments']}")
    typer.echo(f"End: {document['outcome'] or 'none'}. {document['reason'] or ''}")


def export(
    trajectory: Which, file: Annotated[Path | None, typer.Argument(help="Where to; standard output without.")] = None
) -> None:
    """Write one conversation as one JSON file."""
    document = _stored(trajectory)
    if file is None:
        print_json(document)
        return
    with one_sentence():
        write_file(file, json.dumps(document, indent=1, ensure_ascii=False).encode())


def import_(file: Annotated[Path, typer.Argument(help="A file that `export` wrote.")], as_json: Json = False) -> None:
    """Store a conversation from a file, to look at it and to replay it here."""
    from pipeline.database.unit_of_work import unit_of_work
    from pipeline.drafting.trajectories import import_document

    with one_sentence(), unit_of_work() as session:
        name = import_document(session, _read(file)).id
    if as_json:
        print_json({"id": name})
    else:
        typer.echo(f"Stored as {name}.")


def replay(
    trajectory: Annotated[str, typer.Argument(help="A trajectory's id, or a file that `export` wrote.")],
    as_json: Json = False,
) -> None:
    """Run a conversation's tool calls again in today's sandbox and gate, without the model; exit code 1 if one differs.

    The first step that differs is shown.
    """
    from pipeline.drafting.again import replay_document
    from pipeline.drafting.trajectories import checked

    with one_sentence():
        path = Path(trajectory)
        document = _read(path) if path.is_file() else _stored(trajectory)
        document = {**document, "steps": checked(document)}
        found = replay_document(document)
    if as_json:
        print_json(found.to_dict())
    elif found.difference is None:
        typer.echo(f"{found.calls} tool calls say today what they said then.")
    else:
        d = found.difference
        typer.echo(f"Step {d.step} ({d.tool}) differs.\nThen: {d.then}\nNow:  {d.now}")
    raise typer.Exit(0 if found.difference is None else 1)


def propose_rules(as_json: Json = False) -> None:
    """Propose a rewrite rule, with its tests, of each released document that a model drafted, for `review rules`."""
    from pipeline.database.unit_of_work import unit_of_work
    from pipeline.drafting.rules import proposals

    with one_sentence(), unit_of_work() as session:
        rows = proposals(session)
    if as_json:
        print_json({"proposals": rows})
        return
    for row in rows:
        rule = row["rule"]
        said = f"{rule['match']} = {rule['to']} for {rule['domain']}" if rule else f"no rule: {row['reason']}"
        typer.echo(f"Candidate {row['candidate']}: {said}")
    if not rows:
        typer.echo("No released patch holds a document that a model drafted.")


def _stored(trajectory: str) -> dict[str, Any]:
    from pipeline.database.unit_of_work import reading
    from pipeline.drafting.trajectories import export as exported

    with one_sentence(), reading() as session:
        return exported(session, trajectory)


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except OSError as error:
        raise BadInput(f"Cannot read {str(file)!r}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{str(file)!r} is not JSON: {error}.") from error
