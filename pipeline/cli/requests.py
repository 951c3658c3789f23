"""`spyre-factory request MODEL` and `status ID`: ask for an adapter, and see how far it is."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pipeline.cli.output import one_sentence, print_json
from pipeline.settings import get_settings

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def register(app: typer.Typer) -> None:
    """Add both commands."""
    app.command("request")(request)
    app.command("status")(status)


def request(
    model: Annotated[str, typer.Argument(help="Hub id of the model.")],
    profile: Annotated[str | None, typer.Option("--profile", help="Device profile.")] = None,
    note: Annotated[str, typer.Option("--note", help="For whoever looks at it.")] = "",
    as_json: Json = False,
) -> None:
    """Ask for an adapter for a model; a running `up` (or the next sweep) works on it first."""
    from pipeline.database.accounts import local_reviewer
    from pipeline.database.unit_of_work import unit_of_work
    from pipeline.requests.service import create_request, request_status

    settings = get_settings()
    with one_sentence(), unit_of_work() as session:
        how: dict[str, Any] = {"note": note, "releases": settings.releases}
        made = create_request(session, model, profile or settings.profile, principal=local_reviewer(session), **how)
        report = request_status(session, made.request.id)
    _print(report, as_json)


def status(request_id: Annotated[str, typer.Argument(help="Id of the request.")], as_json: Json = False) -> None:
    """Say how far a request is."""
    from pipeline.database.unit_of_work import reading
    from pipeline.requests.service import request_status

    with one_sentence(), reading() as session:
        report = request_status(session, request_id)
    _print(report, as_json)


def _print(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    result = report["result"] or {}
    waits = result.get("waiting_candidate")
    why = f"candidate {waits} waits for review" if waits else result.get("reason") or ""
    typer.echo(f"{report['id']}  {report['model']}  {report['state']}  {result.get('outcome', '')}  {why}".rstrip())
