"""`spyre-factory check`: does a model run on Spyre, how well, and what to do."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from pipeline.errors import BadInput, FactoryError
from pipeline.settings import get_settings


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("check")(check_command)


def check_command(
    model: Annotated[str, typer.Argument(metavar="MODEL_OR_PATH", help="Hub id or checkpoint folder")],
    profile: Annotated[str | None, typer.Option(help="device profile")] = None,
    no_adapter: Annotated[bool, typer.Option("--no-adapter", help="judge the stock model")] = False,
    weights: Annotated[str, typer.Option(help="auto, hub or synthetic")] = "auto",
    device: Annotated[str, typer.Option(help="simulator or hardware")] = "simulator",
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document on standard output")] = False,
) -> None:
    """Judge one model: capability, verdict, what to do. Needs no service and no database."""
    from pipeline.execution.check import check
    from sim_backend.profiles import resolve_alias

    try:
        named = resolve_alias(profile or get_settings().profile)
        result = check(model, profile=named, adapter=not no_adapter, weights=weights, device=device)
    except FactoryError as error:
        problem = {"error": error.code, "kind": getattr(error, "kind", None), "message": str(error)}
        typer.echo(json.dumps(problem) if as_json else f"spyre-factory: {error}", err=not as_json)
        raise typer.Exit(2 if isinstance(error, BadInput) else 3) from error
    typer.echo(json.dumps(result, indent=2) if as_json else as_text(result))
    raise typer.Exit(0 if result["outcome"] == "passed" else 1)


def as_text(result: dict[str, Any]) -> str:
    """The answer for people."""
    lines = [
        f"{result['model']} ({result['weights']} weights) on simulated Spyre, {result['profile']}: {result['outcome']}"
    ]
    if result["adapter"]:
        lines.append(f"adapter {result['adapter']}")
    if result["worst_token_cosine"] is not None:
        lines.append(f"lowest token cosine {result['worst_token_cosine']:.5f}, pooled {result['pooled_cosine']:.5f}")
    lines += [
        f"  {f['kind']:<18} {f['op']:<45} {f['source']}  x{f['count']}  {f['message'][:110]}"
        for f in result["failures"]
    ]
    if result["outcome"] != "passed" and result.get("reason"):
        lines.append(result["reason"])
    return "\n".join([*lines, result["next"]])
