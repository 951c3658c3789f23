"""How commands speak: one JSON document for machines, one sentence for an error, exit code 0 only on success."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from pipeline.errors import BadInput, FactoryError


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turn a `FactoryError` into its sentence on standard error and exit code 1."""
    try:
        yield
    except FactoryError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


def print_json(document: Any) -> None:
    """The one JSON document of a command, on standard output."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False, default=str))


def write_file(file: Path, content: bytes) -> None:
    """Write what a command was asked for. Raises BadInput, one sentence."""
    try:
        file.write_bytes(content)
    except OSError as error:
        raise BadInput(f"Cannot write {str(file)!r}: {error.strerror}.") from error
