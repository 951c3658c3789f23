"""`spyre-factory drafting stop | start`: the global stop of calls to language models."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pipeline.cli.output import one_sentence, print_json

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def register(app: typer.Typer) -> None:
    """Add the `drafting` group."""
    group = typer.Typer(no_args_is_help=True, help="Calls to language models.")
    group.command("stop")(stop)
    group.command("start")(start)
    app.add_typer(group, name="drafting")


def stop(
    reason: Annotated[str, typer.Option("--reason", help="Why; kept with the stop.")] = "", as_json: Json = False
) -> None:
    """Let no call to a language model begin, in any worker; rules go on."""
    from pipeline.database.unit_of_work import unit_of_work
    from pipeline.review.drafting import stop_drafting

    with one_sentence(), unit_of_work() as session:
        stop_drafting(session, reason)
    _print({"stopped": True}, as_json)


def start(as_json: Json = False) -> None:
    """Let calls to language models begin again."""
    from pipeline.database.unit_of_work import unit_of_work
    from pipeline.review.drafting import start_drafting

    with one_sentence(), unit_of_work() as session:
        start_drafting(session)
    _print({"stopped": False}, as_json)


def _print(state: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(state)
    else:
        typer.echo("No call to a language model begins." if state["stopped"] else "Language models may be called.")
