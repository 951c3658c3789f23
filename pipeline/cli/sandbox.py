"""`spyre-factory sandbox selftest`: proves the sandbox on this machine."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console


def register(app: typer.Typer) -> None:
    """Add the group `sandbox`."""
    group = typer.Typer(no_args_is_help=True, help="The sandbox that drafted code runs in.")
    group.callback()(_group)
    group.command("selftest")(selftest)
    app.add_typer(group, name="sandbox")


def _group() -> None:
    """The sandbox that drafted code runs in."""


def selftest(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Try to break out, to exceed every limit and to compute; exit status 1 if any check fails."""
    from agents.sandbox.selftest import selftest as run_selftest
    from pipeline.settings import get_settings

    checks = run_selftest([get_settings().data_dir])
    failed = sum(not check.passed for check in checks)
    if as_json:
        report = {"checks": [c._asdict() for c in checks], "passed": len(checks) - failed, "failed": failed}
        typer.echo(json.dumps(report))
    else:
        _print(checks, failed)
    raise typer.Exit(1 if failed else 0)


def _print(checks: list, failed: int) -> None:  # type: ignore[type-arg]
    """One line per check: the mark is a word, not a colour."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    for check in checks:
        console.print(f"{'ok  ' if check.passed else 'FAIL'}  {check.name}  ({check.detail})")
    console.print(f"{len(checks) - failed} of {len(checks)} checks passed")
