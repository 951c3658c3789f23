"""`spyre-factory agents`: scripted endpoint, what `llm` lacks, scores, stored conversations."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from pipeline.cli.output import one_sentence

if TYPE_CHECKING:
    from agents.drafters.llm.doctor import Check, Examination
    from agents.endpoint import Script
    from agents.endpoint.server import EndpointServer

DEFAULT = "wrong_then_right"
TRIAL_CODE = "def forward(x):\n    return x * x\n"
FAULTS = "429, 500, malformed_body, malformed_arguments, endless, no_tools, refuse_tools, no_usage or truncated"

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def register(app: typer.Typer) -> None:
    """Adds the `agents` group."""
    from pipeline.cli import trajectories
    from pipeline.cli.bench import bench

    group = typer.Typer(no_args_is_help=True, help="The drafting agents.")
    group.command("demo-endpoint")(demo_endpoint)
    group.command("doctor")(doctor)
    group.command("prompts")(prompts)
    group.command("bench")(bench)
    trajectories.register(group)
    app.add_typer(group, name="agents")


def demo_endpoint(
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free port.")] = 8010,
    script: Annotated[Path | None, typer.Option("--script", help="A YAML or JSON file of scripts.")] = None,
    scenario: Annotated[str, typer.Option("--scenario", help="A scenario that comes with the package.")] = DEFAULT,
    fault: Annotated[str | None, typer.Option("--fault", help=f"Show a fault: {FAULTS}.")] = None,
    times: Annotated[int, typer.Option("--times", min=1, help="How many requests show the fault.")] = 1,
    as_json: Json = False,
) -> None:
    """Serve a scripted OpenAI-compatible endpoint on this machine until Ctrl-C. It calls no language model."""
    from agents.endpoint import Fault, make_server

    if fault is not None and fault not in {f.value for f in Fault}:
        _fail(f"{fault!r} is not a fault: choose {FAULTS}.")
    scripts = _scripts(script, scenario)
    try:
        server = make_server(port, scripts, Fault(fault) if fault else None, times)
    except OSError as error:
        _fail(f"Port {port} cannot be used ({error.strerror}): choose another with --port.")
    _end_on_signals(server)
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    typer.echo(json.dumps({"url": url, "model": "scripted"}) if as_json else _announcement(url))
    try:
        server.serve_forever(poll_interval=0.1)
    finally:
        server.server_close()


def prompts(as_json: Json = False) -> None:
    """The digest of the prompts and the size of a conversation's opening over the bench, in UTF-8 bytes."""
    from pipeline.drafting.prompts import opening_sizes

    found = opening_sizes()
    if as_json:
        typer.echo(json.dumps(found))
    else:
        typer.echo(f"Prompts {found['digest'][:12]}: {found['p95']} bytes at p95 over {found['openings']} openings, ")
        typer.echo(f"median {found['median']}, largest {found['largest']}, limit {found['limit']}.")
    raise typer.Exit(0 if found["met"] else 1)


LEDGER = {
    True: ("ledger", True, "trial calls are in the day's ledger; what was found out is kept"),
    False: ("ledger", None, "there is no database yet: trial calls were not written down, nothing is kept"),
}


def doctor(as_json: Json = False) -> None:
    """Check what the llm drafter needs; exit status 1 if anything is missing. Makes trial calls to the endpoint."""
    from agents.drafters.llm.doctor import Check, examine
    from pipeline.drafting.endpoint import budgets, is_ready, llm_settings, remember
    from pipeline.review.drafting import StoredBudget

    settings, ready = llm_settings(), is_ready()
    with one_sentence():
        found = examine(settings, _try_sandbox, StoredBudget(budgets()) if ready else None)
    found.checks.append(Check(*LEDGER[ready]))
    if ready and found.model is not None:
        remember(settings, found)
    if as_json:
        _print_document(found)
    else:
        _print(found.checks, found.failed)
    raise typer.Exit(1 if found.failed else 0)


def _print_document(found: Examination) -> None:
    known = {"model": found.model, "protocol": found.protocol, "context_tokens": found.context_tokens}
    counts = {"passed": sum(c.passed is True for c in found.checks), "failed": found.failed}
    typer.echo(json.dumps({"checks": [c._asdict() for c in found.checks], **counts, **known}))


def _scripts(path: Path | None, scenario: str) -> tuple[Script, ...]:
    from agents.endpoint import ScriptError, load_scripts

    try:
        return load_scripts(path, scenario)
    except ScriptError as error:
        _fail(f"{error}.")


def _fail(sentence: str) -> NoReturn:
    typer.echo(sentence, err=True)
    raise typer.Exit(1)


def _announcement(url: str) -> str:
    return (
        f"Scripted endpoint (no language model) at {url}, Ctrl-C ends it.\n"
        f"Use it: export OPENAI_BASE_URL={url} SPYRE_FACTORY_LLM_DAILY_BUDGET_USD=1 SPYRE_FACTORY_DRAFTERS=llm"
    )


def _end_on_signals(server: EndpointServer) -> None:
    """Let SIGINT and SIGTERM end the serving. They may come before it begins."""

    def stop(number: int, frame: FrameType | None) -> None:
        server.stopping.set()
        threading.Thread(target=server.shutdown, daemon=True).start()

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)


def _try_sandbox() -> None:
    from agents.sandbox.capture import capture_in_sandbox

    capture_in_sandbox(TRIAL_CODE, {})


MARKS = {True: "ok  ", False: "FAIL", None: "?   "}


def _print(checks: list[Check], failed: int) -> None:
    for check in checks:
        typer.echo(f"{MARKS[check.passed]}  {check.name}: {check.detail}")
    state = "The llm drafter can draft." if not failed else "The llm drafter does not draft; the rules drafter does."
    typer.echo(state)
