"""`spyre-factory up`: the whole service in the foreground, ended by Ctrl-C."""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pipeline.work.supervisor import Supervisor

from pipeline.cli.output import one_sentence
from pipeline.settings import Settings, get_settings
from pipeline.work.stopping import StopFlag

READY_S = 45.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("up")(up)


def up(
    port: Annotated[int | None, typer.Option("--port", help="Port of the dashboard.")] = None,
    workers: Annotated[int | None, typer.Option("--workers", min=1, max=64, help="Stages at a time.")] = None,
    sweep: Annotated[
        str | None, typer.Option("--sweep", help="Also sweep this catalogue: starter, hub, a file.")
    ] = None,
    top: Annotated[int | None, typer.Option("--top", min=1, help="Only the first models of the sweep.")] = None,
) -> None:
    """Upgrade the database, start the API, the dashboard, workers and dispatcher; Ctrl-C ends them all."""
    given = {name: value for name, value in {"port": port, "workers": workers}.items() if value is not None}
    with one_sentence():
        serve(get_settings().model_copy(update=given), sweep, top)


def serve(settings: Settings, sweep: str | None, top: int | None) -> None:
    """Run until SIGINT or SIGTERM. Raises `PortBusy`, `DataDirUnusable`, `Conflict` and what starting can raise."""
    from pipeline.errors import Conflict
    from pipeline.work.broker import is_embedded
    from pipeline.work.installation import check_port, give_back_everything, prepare_installation, take_charge
    from pipeline.work.supervisor import Supervisor

    stop = StopFlag()
    check_port(settings)
    prepare_installation(settings)
    lock = take_charge(settings)
    if lock is None:
        raise Conflict(f"Another `spyre-factory up` or `sweep` is in charge of {settings.data_dir}: end it first.")
    with lock:
        with Supervisor(settings, ("api", "worker", "dispatcher"), environment(settings)) as supervisor:
            announce(settings, supervisor, stop)
            watch(settings, supervisor, stop, begin_sweep(settings, sweep, top) if sweep else None)
        if is_embedded(settings):
            give_back_everything(settings)
    typer.echo("Ended.")


def watch(settings: Settings, supervisor: Supervisor, stop: StopFlag, sweep_id: int | None) -> None:
    """Keep everything running until told to stop; print the table of the sweep once it is done."""
    waiting_for = sweep_id
    while not stop.wait(0.5):
        supervisor.keep_alive()
        if waiting_for is not None and print_if_done(settings, waiting_for):
            waiting_for = None


def begin_sweep(settings: Settings, catalog: str, top: int | None) -> int:
    """Start the sweep, or go on with the last unfinished one like it."""
    from pipeline.catalogue.service import load_catalogue
    from pipeline.cli.sweep import sweep_options
    from pipeline.database.unit_of_work import unit_of_work
    from pipeline.sweeps.service import resume_sweep, start_sweep

    options = sweep_options(settings, None, "auto", None, top)
    listed = load_catalogue(catalog, top)
    with unit_of_work() as session:
        found = resume_sweep(session, catalog, options) or start_sweep(session, catalog, listed, options)
        return found.id


def print_if_done(settings: Settings, sweep_id: int) -> bool:
    """True once the sweep is done; its table, funnel and next step are printed then."""
    from pipeline.cli.funnel import next_step, table_of
    from pipeline.database.unit_of_work import reading
    from pipeline.sweeps.service import is_finished, sweep_report
    from pipeline.work.installation import dashboard_url

    with reading() as session:
        if not is_finished(session, sweep_id):
            return False
        report = sweep_report(session, sweep_id)
    for line in [*table_of(report), next_step(report, dashboard_url(settings))]:
        typer.echo(line)
    return True


def environment(settings: Settings) -> dict[str, str]:
    """The environment of the service's processes: ours, with the options of this command as settings."""
    given = {"PORT": str(settings.port), "WORKERS": str(settings.workers), "DATA_DIR": str(settings.data_dir)}
    return {**os.environ, **{f"SPYRE_FACTORY_{name}": value for name, value in given.items()}}


def announce(settings: Settings, supervisor: Supervisor, stop: StopFlag) -> None:
    """Print where the dashboard is, once it answers (or at once with a note if it does not)."""
    from pipeline.work.installation import dashboard_url, login_link

    typer.echo(f"Simulated Spyre, {settings.profile}. No card needed, none used.")
    began = time.monotonic()
    while not answers(settings) and time.monotonic() - began < READY_S and not stop.wait(0.2):
        supervisor.keep_alive()
    typer.echo(f"Dashboard {dashboard_url(settings)}   first login: {login_link(settings)}")
    broker = "embedded" if settings.broker_url is None else "configured"
    typer.echo(f"Broker {broker} · Sandbox {sandbox_state(settings, stop)} · LLM {language_model_state(settings)}")


def sandbox_state(settings: Settings, stop: StopFlag) -> str:
    """What the self-test of the worker's start says; without a working sandbox the rules drafter goes on."""
    from pipeline.work.sandbox_state import ANSWER_WITHIN_S, read_state, sandbox_refusal

    began = time.monotonic()
    while (state := read_state(settings.data_dir, 0)) is None and time.monotonic() - began < ANSWER_WITHIN_S:
        if stop.wait(0.2):
            return "not tested"
    refusal = sandbox_refusal(settings.data_dir, 0)
    return f"off, rules only: {refusal}" if refusal or state is None else f"ok ({state['checks']} checks)"


def language_model_state(settings: Settings) -> str:
    """Whether the `llm` drafter is on."""
    if settings.llm_model and settings.llm_daily_budget_usd > 0:
        return f"{settings.llm_model}, at most {settings.llm_daily_budget_usd:g} USD a day"
    return "none set, rules only (docs/agents.md)"


def answers(settings: Settings) -> bool:
    """True if something listens on the dashboard's port."""
    try:
        with socket.create_connection((settings.host, settings.port), timeout=0.5):
            return True
    except OSError:
        return False
