"""`spyre-factory sweep`: run models through every stage and wait; with its own workers, or those of a running `up`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from pipeline.cli.output import one_sentence, print_json
from pipeline.settings import Settings, get_settings

POLL_S = 0.3


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("sweep")(sweep)


def sweep(
    catalog: Annotated[str, typer.Option("--catalog", help="starter, hub or a file.")] = "starter",
    top: Annotated[int | None, typer.Option("--top", min=1, help="Only the first models.")] = None,
    profile: Annotated[str | None, typer.Option("--profile", help="Device profile.")] = None,
    weights: Annotated[str, typer.Option("--weights", help="auto, hub or synthetic.")] = "auto",
    releases: Annotated[str | None, typer.Option("--releases", help="bundled or none.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the last unfinished sweep like this one.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Run models through every stage, wait, print the funnel. Run again with nothing changed it executes no model."""
    with one_sentence():
        settings = get_settings()
        options = sweep_options(settings, profile, weights, releases, top)
        report = run_sweep(settings, catalog, options, resume=resume, progress=not as_json)
    if as_json:
        print_json(report)
    else:
        print_report(report)


def sweep_options(settings: Settings, profile: str | None, weights: str, releases: str | None, top: int | None) -> Any:
    """The options, checked. Raises `BadInput` for a word that is not one of its choices."""
    from pipeline.sweeps.schemas import SweepOptions, checked

    return SweepOptions(
        profile=checked("--profile", resolve_profile(profile or settings.profile), known_profiles()),
        weights=checked("--weights", weights, ("auto", "hub", "synthetic")),
        releases=checked("--releases", releases or settings.releases, ("bundled", "none")),
        top=top,
    )


def known_profiles() -> tuple[str, ...]:
    """The shipped profiles, by their files: the simulator is not imported."""
    from pipeline.work.environment import shipped_profiles

    return shipped_profiles()


def resolve_profile(name: str) -> str:
    """`latest` is the newest dated profile; it is resolved before anything is stored."""
    dated = [profile for profile in known_profiles() if profile != "profile-ideal"]
    return max(dated) if name == "latest" and dated else name


def run_sweep(settings: Settings, catalog: str, options: Any, *, resume: bool, progress: bool) -> dict[str, Any]:
    """Start (or resume) the sweep, wait for its end, return the report with `seconds`."""
    from pipeline.catalogue.service import load_catalogue
    from pipeline.database.unit_of_work import reading, unit_of_work
    from pipeline.sweeps.service import resume_sweep, start_sweep, sweep_report
    from pipeline.work.installation import prepare_installation

    began = time.monotonic()
    listed = load_catalogue(catalog, options.top)
    prepare_installation(settings)
    with workers(settings) as keep_alive:
        with unit_of_work() as session:
            found = resume_sweep(session, catalog, options) if resume else None
            started = (found or start_sweep(session, catalog, listed, options)).id
        wait_for(started, keep_alive, progress)
    with reading() as session:
        report = sweep_report(session, started)
    return {**report, "seconds": round(time.monotonic() - began, 2)}


@contextmanager
def workers(settings: Settings) -> Iterator[Any]:
    """Workers to wait for: our own if nobody is in charge of the data directory, else those that run."""
    from pipeline.work.broker import is_embedded
    from pipeline.work.commands import WORKERS
    from pipeline.work.installation import give_back_everything, take_charge
    from pipeline.work.supervisor import Supervisor

    lock = take_charge(settings)
    if lock is None:
        yield lambda: None
        return
    with lock:
        with Supervisor(settings, WORKERS) as supervisor:
            yield supervisor.keep_alive
        if is_embedded(settings):
            give_back_everything(settings)


def wait_for(sweep_id: int, keep_alive: Any, progress: bool) -> None:
    """Wait until every run of the sweep has ended."""
    from pipeline.database.unit_of_work import reading
    from pipeline.sweeps.repository import count_unfinished_runs

    shown = -1
    while True:
        with reading() as session:
            left = count_unfinished_runs(session, sweep_id)
        if progress and left != shown and sys.stderr.isatty():
            typer.echo(f"\r{left} runs to go ", err=True, nl=False)
            shown = left
        if left == 0:
            return
        keep_alive()
        time.sleep(POLL_S)


def print_report(report: dict[str, Any]) -> None:
    """A row per model, then the funnel."""
    from pipeline.cli.funnel import table_of

    for line in table_of(report):
        typer.echo(line)
    typer.echo(f"{report['executed']} model executions in {report['seconds']:.0f} s")
