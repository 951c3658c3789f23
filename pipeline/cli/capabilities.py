"""`spyre-factory capabilities`: per model and profile what a scheduler needs to know."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.cli import remote
from pipeline.cli.output import one_sentence, print_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("capabilities")(show)


def show(
    profile: Annotated[list[str] | None, typer.Option("--profile", help="Device profile; may be given again.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Print outcome, adapter digest, memory and longest input of every model with a verdict."""
    from pipeline.database.facts import is_demo
    from pipeline.database.migrate import require_current
    from pipeline.database.unit_of_work import reading
    from pipeline.settings import get_settings
    from pipeline.sweeps.capabilities import Capabilities, capabilities

    with one_sentence():
        if (served := remote.service()) is not None:
            asked: list[str | None] = [*profile] if profile else [None]
            answers = [Capabilities.model_validate(served.capabilities(name)) for name in asked]
            entries = [entry for answer in answers for entry in answer.capabilities]
            document = Capabilities(demo=any(answer.demo for answer in answers), capabilities=entries)
        else:
            require_current()
            with reading() as session:
                found = capabilities(session, profile or [get_settings().profile])
                document = Capabilities(demo=is_demo(session), capabilities=found)
    if as_json:
        print_json(document.model_dump())
        return
    for entry in document.capabilities:
        adapter = (entry.adapter_digest or "no adapter")[:12]
        typer.echo(f"{entry.outcome:<8} {entry.profile}  {adapter:<12}  {entry.longest_input}  {entry.model}")
