"""Entry point of `spyre-factory`: one table of command groups, heavy imports inside the commands."""

from __future__ import annotations

import importlib

import typer

GROUPS = (
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
    "keys",
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
    build_app()()
