"""`spyre-factory drafting stop | start | costs`: the global stop of calls to language models, and what they cost."""

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
    group.command("costs")(costs)
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


def costs(as_json: Json = False) -> None:
    """What language models cost: in all, per candidate, per model that then passes and per download."""
    from pipeline.database.unit_of_work import reading
    from pipeline.drafting.costs import cost_report

    with one_sentence(), reading() as session:
        report = cost_report(session)
    if as_json:
        print_json(report)
        return
    typer.echo(f"{report['calls']} calls: {usd(report['cost_usd'])}, charged {usd(report['charged_usd'])}.")
    for row in report["candidates"]:
        typer.echo(
            f"Candidate {row['candidate']} ({row['state']}): {usd(row['cost_usd'])}; {row['models_passing']} models "
            f"pass, {usd(row['per_model_usd'])} each, {usd(row['per_download_usd'])} per download"
        )


def usd(value: float | None) -> str:
    """An amount in words; what is not known is not 0."""
    return "unknown" if value is None else f"{value:.6f} USD"
