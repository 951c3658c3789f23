"""`spyre-factory request MODEL` and `status ID`: ask for an adapter, and see how far it is; here or at `--server`."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli import remote
from pipeline.cli.output import one_sentence, print_json
from pipeline.errors import BadInput
from pipeline.settings import get_settings

if TYPE_CHECKING:
    from pipeline.cli.client import Client

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Server = Annotated[
    str | None, typer.Option("--server", help="URL of a running service; its token is SPYRE_FACTORY_TOKEN.")
]


def register(app: typer.Typer) -> None:
    """Add both commands."""
    app.command("request")(request)
    app.command("status")(status)


def request(
    model: Annotated[str | None, typer.Argument(help="Hub id of the model.")] = None,
    config: Annotated[Path | None, typer.Option("--config", help="A config.json, in place of a model.")] = None,
    revision: Annotated[str | None, typer.Option("--revision", help="A commit of the model, 40 hex digits.")] = None,
    profile: Annotated[str | None, typer.Option("--profile", help="Device profile.")] = None,
    note: Annotated[str, typer.Option("--note", help="For whoever looks at it.")] = "",
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Ask for an adapter for a model; a running `up` (or the next sweep) works on it first."""
    from pipeline.cli.client import Client

    with one_sentence():
        if (model is None) == (config is None):
            raise BadInput("Give either a model or --config FILE.")
        asked: dict[str, Any] = {"revision": revision, "profile": profile, "note": note}
        sent = {"model": model, "config": None if config is None else read_config(config), **asked}
        served = Client(server) if server else remote.service()
        report = ask(served, sent) if served else make(sent)
    _print(report, as_json)


def status(
    request_id: Annotated[str, typer.Argument(help="Id of the request.")], server: Server = None, as_json: Json = False
) -> None:
    """Say how far a request is."""
    from pipeline.cli.client import Client
    from pipeline.database.unit_of_work import reading
    from pipeline.requests.service import request_status

    with one_sentence():
        served = Client(server) if server else remote.service()
        if served:
            report = served.get(f"/requests/{request_id}")
        else:
            with reading() as session:
                report = request_status(session, request_id)
    _print(report, as_json)


def read_config(path: Path) -> dict[str, Any]:
    """The configuration in a file. Raises `BadInput`."""
    try:
        config = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} holds no configuration: {error}.") from error
    if not isinstance(config, dict):
        raise BadInput(f"{path} holds no configuration: it is not a JSON object.")
    return config


def ask(served: Client, sent: dict[str, Any]) -> dict[str, Any]:
    """Ask the service; sending it twice makes one request."""
    body = {name: value for name, value in sent.items() if value not in (None, "")}
    return served.post("/requests", body, **{"Idempotency-Key": str(uuid.uuid4())})


def make(sent: dict[str, Any]) -> dict[str, Any]:
    """Make the request in this installation's database."""
    from pipeline.database.accounts import local_reviewer
    from pipeline.database.unit_of_work import unit_of_work
    from pipeline.requests.lookup import find_model
    from pipeline.requests.service import create_request, request_status

    settings = get_settings()
    found = find_model(sent["model"], sent["revision"], sent["config"])
    how: dict[str, Any] = {"note": sent["note"], "revision": sent["revision"], "releases": settings.releases}
    with unit_of_work() as session:
        profile, who = sent["profile"] or settings.profile, local_reviewer(session)
        model = found.model_id if found else sent["model"]
        made = create_request(session, model, profile, principal=who, found=found, **how)
        return request_status(session, made.request.id)


def _print(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    typer.echo(f"{report['id']}  {report['model']}  {report['state']}  {_why(report)}".rstrip())


def _why(report: dict[str, Any]) -> str:
    if "next" in report:
        return str(report["next"])
    result = report["result"] or {}
    waits = result.get("waiting_candidate")
    why = f"candidate {waits} waits for review" if waits else result.get("reason") or ""
    return f"{result.get('outcome', '')}  {why}"
