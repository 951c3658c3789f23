"""`spyre-factory evidence list | show | replay | hardware`: what verdicts rest on, and that it can be had again."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli import remote
from pipeline.cli.output import one_sentence, print_json
from pipeline.errors import BadInput

if TYPE_CHECKING:
    from pipeline.cli.client import Client

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Which = Annotated[str, typer.Argument(metavar="ID", help="Number of the evidence, or the beginning of its address.")]


def register(app: typer.Typer) -> None:
    """Add the `evidence` group."""
    group = typer.Typer(no_args_is_help=True, help="Evidence: what verdicts rest on.")
    group.command("list")(list_all)
    group.command("show")(show)
    group.command("replay")(replay)
    group.command("hardware")(hardware)
    app.add_typer(group, name="evidence")


def list_all(as_json: Json = False) -> None:
    """List the stored evidence, newest first."""
    from pipeline.database.unit_of_work import reading
    from pipeline.review.evidence import list_evidence

    with one_sentence():
        if (served := remote.service()) is not None:
            rows = served.evidence()
        else:
            with reading() as session:
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
    device: Annotated[
        str | None, typer.Option(help="simulator, or hardware: a card; its verdict is kept apart.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run evidence again; exit status 0 only if the same verdict document comes out and every figure agrees.

    On a card the verdict is kept for `evidence hardware`, whatever it is; then 0 means that the outcome is the same.
    """
    with one_sentence():
        if capability not in (None, "default", "avx2", "avx512"):
            raise BadInput(f"--capability is default, avx2 or avx512, not {capability!r}.")
        if device not in (None, "simulator", "hardware"):
            raise BadInput(f"--device is simulator or hardware, not {device!r}.")
        if (served := remote.service()) is not None:
            _ask(served, which, device, as_json, threads=threads, capability=capability)
            return
        from pipeline.execution.replay_evidence import replay as run_replay

        address, document = _find(which)
        with tempfile.TemporaryDirectory(prefix="spyre-replay-") as work:
            how: dict[str, Any] = {"threads": threads, "capability": capability, "device": device}
            done = run_replay(document, Path(work), **how)
        if device == "hardware":
            _keep(address, document, done)
    found = {"address": address, **how, **done.to_dict()}
    if as_json:
        print_json(found)
    else:
        _print(found)
    same = done.identical and done.agrees
    if device == "hardware":
        same = done.outcome == document["verdict"]["outcome"]
    raise typer.Exit(0 if same else 1)


def _ask(served: Client, which: str, device: str | None, as_json: bool, **how: Any) -> None:
    """Let a worker of the service do it: printed is what is known of it now; asked again, it says what came of it."""
    if device == "hardware" or not which.isdecimal():
        raise BadInput("A service replays evidence by its number, on the simulator.")
    found = served.replay(int(which), **how)
    if as_json:
        print_json(found)
    else:
        typer.echo(f"Run {found['id']} {found['outcome'] or found['state']}. {found['reason']}".strip())
    if found["outcome"] not in (None, "passed"):
        raise typer.Exit(1)


def hardware(as_json: Json = False) -> None:
    """List what cards made of evidence, newest first, beside what the simulator made of it."""
    from pipeline.database.unit_of_work import reading
    from pipeline.hardware.service import summaries

    with one_sentence(), reading() as session:
        rows = summaries(session)
    if as_json:
        print_json({"hardware": rows})
        return
    for row in rows:
        told = f"card {row['outcome']}, simulator {row['simulated']} ({row['profile']})"
        typer.echo(f"{row['id']:>4}  {row['document'][:16]}  {row['model']}  {told}")
    if not rows:
        typer.echo("No verdict of a card is stored.")


def _keep(address: str, document: dict[str, Any], done: Any) -> None:
    from pipeline.database.unit_of_work import unit_of_work
    from pipeline.hardware.service import keep

    with unit_of_work() as session:
        keep(session, address, document, done)


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
