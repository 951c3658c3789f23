"""`spyre-factory ops`: failing operations, ranked by the downloads that would then pass."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pipeline.cli import remote
from pipeline.cli.output import one_sentence, print_json
from pipeline.settings import get_settings


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("ops")(ops)


def ops(
    profile: Annotated[str | None, typer.Option("--profile", help="Device profile.")] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="How many causes to print.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    svg: Annotated[Path | None, typer.Option(help="Write a heat map of operations over families.")] = None,
) -> None:
    """Print what keeps models from passing, and the cheapest sets of causes to mend next."""
    from pipeline.database.migrate import require_current
    from pipeline.database.unit_of_work import reading
    from pipeline.ranking.service import ranking

    with one_sentence():
        if (served := remote.service()) is not None:
            report = served.ops(profile)
        else:
            require_current()
            with reading() as session:
                report = ranking(session, profile or get_settings().profile)
    if svg is not None:
        from pipeline.diagnosis.pictures import heat_map

        svg.write_text(heat_map({(r["op"], r["family"]): r["models"] for r in report["by_family"]}))
    if as_json:
        print_json(report)
    else:
        print_report(report, top)
        if svg is not None:
            print_families(report["by_family"])


def print_families(rows: list[dict[str, Any]]) -> None:
    """The table beside the picture: one line per operation, its families with how many of their models fail there."""
    for op in dict.fromkeys(row["op"] for row in rows):
        typer.echo(f"{op}: " + ", ".join(f"{r['family']} {r['models']}" for r in rows if r["op"] == op))


def print_report(report: dict[str, Any], top: int) -> None:
    """The ranked causes, then one line per share of downloads."""
    if report["demo"]:
        typer.echo("This database is a demonstration: its figures mean nothing.")
    unknown = report["without_causes"]
    typer.echo(f"{report['profile']}: {report['not_passing']} models do not pass, {unknown} of them for no known cause")
    typer.echo(f"{'WOULD THEN PASS':>24}{'BLOCKED':>24}  CAUSE")
    for row in report["ops"][:top]:
        alone = f"{row['alone_models']} · {row['alone_downloads']:,}"
        typer.echo(f"{alone:>24}{row['models']:>6} · {row['downloads']:>15,}  {cause_text(row)}")
    for found in report["cheapest"]:
        typer.echo(set_text(found, report["solver"]))


def cause_text(cause: dict[str, Any]) -> str:
    """`unsupported_dtype aten.gelu.default (float32)`."""
    condition = f" ({cause['condition']})" if cause["condition"] else ""
    return f"{cause['kind']} {cause['op']}".strip() + condition


def set_text(found: dict[str, Any], solver: str) -> str:
    """One sentence about a cheapest set."""
    share = f"{found['share']:.0%} of the downloads that do not pass"
    if not found["reachable"]:
        return f"{share}: not reachable, too few models have known causes"
    names = "; ".join(cause_text(cause) for cause in found["causes"])
    size = f"{len(found['causes'])} causes, {found['models']} models would then pass"
    return f"{share}: {size} ({solver}, gap {found['gap']:.2g}): {names}"
