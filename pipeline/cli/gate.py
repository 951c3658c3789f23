"""`spyre-factory gate selftest`: attacks the verifier and prints its error rates."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress


def register(app: typer.Typer) -> None:
    """Add the group `gate`."""
    group = typer.Typer(no_args_is_help=True, help="The verifier's own test.")
    group.callback()(_group)
    group.command("selftest")(selftest)
    app.add_typer(group, name="gate")


def _group() -> None:
    """The verifier's own test."""


def selftest(
    full: Annotated[
        bool, typer.Option("--full", help="Every entry, also behind the source rules; goes on where it was.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Judge wrong candidates, honest ones and mutants; exit status 1 if one is judged wrongly or not at all."""
    from pipeline.settings import get_settings
    from pipeline.verification.selftest.run import run_selftest
    from pipeline.verification.selftest.stored import state_folder, store_report

    data_dir = get_settings().data_dir
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("judging", total=None)
        report = run_selftest(
            full=full,
            seed=seed_of(full),
            state=state_folder(data_dir) / "state" if full else None,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    store_report(data_dir, report)
    typer.echo(json.dumps(report)) if as_json else _print(report)
    raise typer.Exit(1 if report["failed"] else 0)


def seed_of(full: bool) -> int:
    """A hidden seed for each quick run; one seed for the full run, which must find what it has done before."""
    import secrets

    from pipeline.verification.seeds import SEED_BITS

    return 1 if full else secrets.randbits(SEED_BITS - 1)


def _print(report: dict[str, Any]) -> None:
    """What failed, then the rates by class."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    for check in report["checks"]:
        if not check["passed"]:
            console.print(f"FAIL  {check['name']}  ({check['detail']})")
    for rate in report["rates"]:
        console.print(_line(rate))
    for survivor in report["survivors"]:
        console.print(f"equal under two draws, counted as no mistake: {survivor['name']}")
    console.print(
        f"{report['passed']} of {report['passed'] + report['failed']} judged rightly, {report['date']}, "
        f"{report['seconds']:.0f} s"
    )


def _line(rate: dict[str, Any]) -> str:
    accepts = f"false accepts {rate['false_accepts']} of {rate['wrong']}" if rate["wrong"] else ""
    rejects = f"false rejects {rate['false_rejects']} of {rate['honest']}" if rate["honest"] else ""
    shares = [f"{rate[k]:.2%}" for k in ("false_accept_rate", "false_reject_rate") if rate[k] is not None]
    return f"{rate['class']:<55} {', '.join(x for x in (accepts, rejects) if x)} ({', '.join(shares)})"
