"""`spyre-factory evidence list | show | replay`: what verdicts rest on, and the proof that it can be had again."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from pipeline.cli.output import one_sentence, print_json

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Which = Annotated[str, typer.Argument(metavar="ID", help="Number of the evidence, or the beginning of its address.")]


def register(app: typer.Typer) -> None:
    """Add the `evidence` group."""
    group = typer.Typer(no_args_is_help=True, help="Evidence: what verdicts rest on.")
    group.command("list")(list_all)
    group.command("show")(show)
    group.command("replay")(replay)
    app.add_typer(group, name="evidence")


def list_all(as_json: Json = False) -> None:
    """List the stored evidence, newest first."""
    from pipeline.database.unit_of_work import reading
    from pipeline.review.evidence import list_evidence

    with one_sentence(), reading() as session:
        rows = list_evidence(session)
    if as_json:
        print_json({"evidence": rows})
        return
    for row in rows:
        address = (row["document"] or "no document")[:16]
        typer.echo(f"{row['id']:>4}  {row['outcome']:<8} {row['tier']:<6} {row['model']}  {address}")
    if not rows:
        typer.echo("No evidence is stored.")


def show(which: Which, as_json: Json = False) -> None:
    """Print the verdict of one evidence document, case by case; `--json` prints the document, hidden seeds included."""
    address, document = _find(which)
    if as_json:
        print_json({"address": address, **document})
        return
    verdict = document["verdict"]
    typer.echo(f"{address}\n{document['checkpoint'].get('model')}: {verdict['sentence']} ({verdict['policy']})")
    for case in verdict["per_case"]:
        typer.echo(f"  {case['outcome']:<8} {case['case']}  {'; '.join(case['reasons'])}")
    for text in verdict["not_applicable"]:
        typer.echo(f"  not applicable: {text}")


def replay(
    which: Which,
    threads: Annotated[int, typer.Option("--threads", min=1, max=64, help="OpenMP threads of the run.")] = 1,
    capability: Annotated[str | None, typer.Option(help="ATEN_CPU_CAPABILITY: default, avx2 or avx512.")] = None,
    as_json: Json = False,
) -> None:
    """Run evidence again; exit status 0 only if the same verdict document comes out and every figure agrees."""
    from pipeline.errors import BadInput
    from pipeline.execution.replay_evidence import replay as run_replay

    with one_sentence():
        if capability not in (None, "default", "avx2", "avx512"):
            raise BadInput(f"--capability is default, avx2 or avx512, not {capability!r}.")
        address, document = _find(which)
        with tempfile.TemporaryDirectory(prefix="spyre-replay-") as work:
            done = run_replay(document, Path(work), threads=threads, capability=capability)  # type: ignore[arg-type]
    found = {"address": address, "threads": threads, "capability": capability, **done.to_dict()}
    if as_json:
        print_json(found)
    else:
        _print(found)
    raise typer.Exit(0 if done.identical and done.agrees else 1)


def _print(found: dict[str, Any]) -> None:
    same = "the same verdict document" if found["identical"] else "ANOTHER verdict document"
    figures = "every figure within its tolerance" if found["agrees"] else "figures BEYOND their tolerance"
    typer.echo(f"{found['address'][:16]}: {found['outcome']}; {same}, {figures}.")
    for line in (*found["differences"], *found["beyond_tolerance"]):
        typer.echo(f"  {line}")
    for line in found["environment"]:
        typer.echo(f"  other environment: {line}")
    typer.echo("  moved at most: " + ", ".join(f"{k} {v:.1g}" for k, v in found["largest"].items() if v != "inf"))


def _find(which: str) -> tuple[str, dict[str, Any]]:
    from pipeline.database.unit_of_work import reading
    from pipeline.review.evidence import find_document

    with one_sentence(), reading() as session:
        return find_document(session, which)
