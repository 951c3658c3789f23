"""Entry point of `spyre-factory`: one table of command groups, heavy imports inside the commands."""

from __future__ import annotations

import importlib
import sys

import typer

GROUPS = (
    "accounts",
    "adapters",
    "agents",
    "capabilities",
    "catalog",
    "check",
    "coverage",
    "db",
    "diagnose",
    "drafting",
    "evidence",
    "gate",
    "gc",
    "keys",
    "models",
    "ops",
    "profile",
    "queue",
    "requests",
    "review",
    "sandbox",
    "sweep",
    "up",
)
"""Modules of this package that define commands; each has `register(app)`."""


def build_app() -> typer.Typer:
    """The Typer application with every command group registered."""
    app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
    for name in GROUPS:
        importlib.import_module(f"pipeline.cli.{name}").register(app)
    return app


def main() -> None:
    """Run the command line."""
    from pipeline.cli.output import one_sentence
    from pipeline.cli.remote import take_server

    try:
        with one_sentence():
            arguments = take_server(sys.argv[1:])
    except typer.Exit as refused:
        sys.exit(refused.exit_code)
    build_app()(args=arguments)
