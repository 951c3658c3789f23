"""`spyre-factory diagnose`: every cause of a model's failure, where it comes from, and a script that shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pipeline.cli.output import print_json
from pipeline.diagnosis.unsearched import sentence
from pipeline.errors import BadInput, FactoryError
from pipeline.settings import get_settings


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("diagnose")(diagnose_command)


def diagnose_command(
    model: Annotated[str, typer.Argument(metavar="MODEL_OR_PATH", help="Hub id or checkpoint folder")],
    profile: Annotated[str | None, typer.Option(help="device profile")] = None,
    repro: Annotated[Path | None, typer.Option(help="write a script per cause: OUT.py, OUT-2.py, ...")] = None,
    svg: Annotated[
        Path | None, typer.Option(help="write pictures: OUT.svg error per layer, OUT-1.svg ... failing regions")
    ] = None,
    weights: Annotated[str, typer.Option(help="auto, hub or synthetic")] = "auto",
    device: Annotated[str, typer.Option(help="simulator or hardware")] = "simulator",
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document on standard output")] = False,
) -> None:
    """Name every cause of one model: operation, line, condition, what to do. Needs no service and no database."""
    from pipeline.execution.diagnosis_report import diagnose_model
    from sim_backend.profiles import resolve_alias

    try:
        named = resolve_alias(profile or get_settings().profile)
        found = diagnose_model(model, profile=named, weights=weights, device=device, reproducers=repro is not None)
    except FactoryError as error:
        problem = {"error": error.code, "kind": getattr(error, "kind", None), "message": str(error)}
        if as_json:
            print_json(problem)
        else:
            typer.echo(f"spyre-factory: {error}", err=True)
        raise typer.Exit(2 if isinstance(error, BadInput) else 3) from error
    if repro is not None:
        write_scripts(found["causes"], repro)
    if svg is not None:
        write_pictures(found, svg)
    if as_json:
        print_json(found)
    else:
        typer.echo(as_text(found))
    raise typer.Exit(0 if found["outcome"] == "passed" else 1)


def write_scripts(causes: list[dict[str, Any]], first: Path) -> None:
    """Write each cause's script: the first under the name given, later ones with a number; note where in the cause."""
    written = 0
    for cause in causes:
        entry = cause["reproducer"]
        if entry and entry["script"]:
            written += 1
            path = first if written == 1 else first.with_stem(f"{first.stem}-{written}")
            path.write_text(entry["script"])
            entry["file"] = str(path)


def write_pictures(found: dict[str, Any], path: Path) -> None:
    """Write the error per layer under the name given, and the failing region of each cause that has one, numbered."""
    from pipeline.diagnosis.pictures import error_curve
    from pipeline.diagnosis.region import failing_region

    path.write_text(error_curve(found["curves"]))
    regions = [r for cause in found["causes"] if (r := cause["evidence"].get("region"))]
    for number, region in enumerate(regions, 1):
        path.with_stem(f"{path.stem}-{number}").write_text(failing_region(region))


def as_text(found: dict[str, Any]) -> str:
    """The answer for people."""
    head = f"{found['model']} ({found['weights']} weights) on simulated Spyre, {found['profile']}"
    lines = [f"{head}: {len(found['causes'])} causes"]
    for cause in found["causes"]:
        lines += cause_lines(cause)
    if found["unsearched"]:
        lines.append(f"  {sentence(found['unsearched'])}")
    return "\n".join([*lines, found["next"]])


def cause_lines(cause: dict[str, Any]) -> list[str]:
    """A cause: what and where, why, what to do, and its script."""
    condition = f" ({cause['condition']})" if cause["condition"] else ""
    where = f"{cause['source']}  {cause['module'] or 'outside the blocks'}"
    times = f"{cause['count']} times in {cause['layers']} layers" if cause["place"] == "block" else f"x{cause['count']}"
    lines = [f"  {cause['kind']} {cause['op']}{condition}  {where}  {times}", f"      {cause['message'][:200]}"]
    do = ", ".join(p["pattern"] for p in cause["patterns"]) or cause["no_patch"]
    lines += [f"      apply {do}" if cause["patterns"] else f"      {do}"] if do else []
    entry = cause["reproducer"]
    if entry:
        lines.append(f"      script: {entry.get('file') or 'none: ' + entry.get('reason', 'not written')}")
    return lines
