"""`spyre-factory queue pause | resume | cancel`: the work that waits."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pipeline.cli.output import one_sentence, print_json

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def register(app: typer.Typer) -> None:
    """Add the `queue` group."""
    group = typer.Typer(no_args_is_help=True, help="The work that waits.")
    group.command("pause")(pause)
    group.command("resume")(resume)
    group.command("cancel")(cancel)
    app.add_typer(group, name="queue")


def pause(
    reason: Annotated[str, typer.Option("--reason", help="Why; the dashboard shows it.")] = "", as_json: Json = False
) -> None:
    """Let nothing new begin; what runs goes on to its end."""
    from pipeline.database.unit_of_work import unit_of_work
    from pipeline.work.control import pause_queue

    with one_sentence(), unit_of_work() as session:
        pause_queue(session, reason)
    _print(_state(), as_json)


def resume(as_json: Json = False) -> None:
    """Let work begin again."""
    from pipeline.database.unit_of_work import unit_of_work
    from pipeline.work.control import resume_queue

    with one_sentence(), unit_of_work() as session:
        resume_queue(session)
    _print(_state(), as_json)


def cancel(
    what: Annotated[str | None, typer.Argument(help="Id of a request, or number of a sweep.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Everything that has not ended.")] = False,
    as_json: Json = False,
) -> None:
    """End what nobody waits for any more; work that somebody else needs goes on."""
    from pipeline.database.unit_of_work import unit_of_work
    from pipeline.errors import BadInput
    from pipeline.requests.service import cancel_named
    from pipeline.work.control import cancel_everything

    with one_sentence():
        if everything == (what is not None):
            raise BadInput("Give the id of a request, the number of a sweep, or --all.")
        with unit_of_work() as session:
            done = cancel_everything(session) if what is None else cancel_named(session, what)
    _print({**_state(), "cancelled": done.ended, "kept": done.kept}, as_json)


def _state() -> dict[str, Any]:
    from pipeline.database.unit_of_work import reading
    from pipeline.work.control import is_paused
    from pipeline.work.repository import count_by_state

    with one_sentence(), reading() as session:
        return {"paused": is_paused(session), "runs": count_by_state(session)}


def _print(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    counts = ", ".join(f"{count} {state}" for state, count in report["runs"].items())
    ended = f"{len(report['cancelled'])} runs cancelled, {len(report['kept'])} go on. " if "cancelled" in report else ""
    typer.echo(f"{ended}The queue is {'paused' if report['paused'] else 'open'}: {counts}.")
