"""`spyre-factory review list | show | claim | approve | reject | changes | strike | rules …`: a human's decisions.

Whoever can read the data directory decides as the human principal `local`; decisions over the network need a session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from sqlalchemy.orm import Session

from pipeline.cli import remote
from pipeline.cli.output import one_sentence, print_json

if TYPE_CHECKING:
    from pipeline.cli.client import Client

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Number = Annotated[int, typer.Argument(help="Number of the candidate.")]
NOTHING: dict[str, Any] = {"adapter": None, "name": None, "version": None}
"""What the first of two approvals releases."""
Reason = Annotated[str, typer.Option("--reason", help="Why, in one sentence.")]


def register(app: typer.Typer) -> None:
    """Add the `review` group."""
    group = typer.Typer(no_args_is_help=True, help="Candidates that wait for a human.")
    for name, command in COMMANDS.items():
        group.command(name)(command)
    app.add_typer(group, name="review")


def list_waiting(
    every: Annotated[bool, typer.Option("--all", help="Decided and refused ones too.")] = False, as_json: Json = False
) -> None:
    """List the candidates that wait."""
    from pipeline.review.models import CandidateState
    from pipeline.review.presentation import summary_of
    from pipeline.review.repository import list_candidates

    rows = _read(
        lambda s: [summary_of(c) for c in list_candidates(s, None if every else CandidateState.WAITING)],
        lambda served: served.reviews(every),
    )
    if as_json:
        print_json({"candidates": rows})
        return
    for row in rows:
        mark = " (scripted)" if row["scripted"] else ""
        typer.echo(f"{row['id']:>4}  {row['state']:<12} {row['family']:<40} {', '.join(row['patches'])}{mark}")
    if not rows:
        typer.echo("No candidate waits.")


def show(number: Number, as_json: Json = False) -> None:
    """Show a candidate: patches, evidence, what would then pass, and the digest to name when deciding."""
    from pipeline.review.presentation import details_of
    from pipeline.review.repository import get_candidate

    row = _read(lambda s: details_of(s, get_candidate(s, number)), lambda served: served.review(number))
    if as_json:
        print_json(row)
        return
    typer.echo(f"Candidate {row['id']} for {row['family']} on {row['profile']}: {row['state']}")
    if row["scripted"]:
        typer.echo("SCRIPTED: drafted by the demonstration endpoint; it counts in no figure.")
    for patch in row["patches"]:
        what = f"{patch['position']}. {patch['pattern']} {patch['parameters']}"
        typer.echo(f"  {what} by {patch['drafter']}, {patch['exactness']}")
    for found in row["evidence"]:
        typer.echo(f"  evidence {found['outcome']} on {found['model']}: {found['measurements']}")
    typer.echo(f"  would then pass: {', '.join(m['model'] for m in row['would_then_pass']) or 'no model'}")
    typer.echo(f"  approve with: spyre-factory review approve {row['id']} --seen {row['seen']} --reason TEXT")


def claim(number: Number, as_json: Json = False) -> None:
    """Take a candidate, so that no other reviewer decides on it meanwhile."""
    from pipeline.review import service
    from pipeline.review.presentation import summary_of

    done = f"Candidate {number} is yours for now."
    by_server = _at_server(number, "claim")
    _decide(lambda s, who: summary_of(service.claim(s, number, who)), by_server, as_json, done)


def approve(
    number: Number,
    seen: Annotated[str, typer.Option("--seen", help="The digest `review show` printed.")],
    reason: Reason = "approved on the command line",
    as_json: Json = False,
) -> None:
    """Release a candidate; the checkpoints it can affect are queued to run again."""
    from pipeline.review import service

    def decide(session: Session, who: Any) -> dict[str, Any]:
        released = service.approve(session, number, who, seen=seen, reason=reason)
        made = released.adapter
        named = {"adapter": made.id, "name": made.name, "version": made.version} if made else NOTHING
        return {**named, "runs": [run.id for run in released.runs]}

    def at_server(served: Client) -> dict[str, Any]:
        answer = served.decide(number, "approve", seen, reason=reason)
        made = answer["adapter"]
        named = {"adapter": made["id"], "name": made["name"], "version": made["version"]} if made else NOTHING
        return {**named, "runs": answer["runs"]}

    done = _decide(decide, at_server, as_json, "")
    if not as_json and done["adapter"] is None:
        typer.echo("Approved; a second person has to approve it too.")
    elif not as_json:
        typer.echo(f"Released as {done['name']} v{done['version']}; {len(done['runs'])} checkpoints run again.")


def reject(number: Number, reason: Reason, as_json: Json = False) -> None:
    """Refuse a candidate for good; the same set is never drafted again."""
    from pipeline.review import service
    from pipeline.review.presentation import summary_of

    by_server = _at_server(number, "reject", reason=reason)
    _decide(lambda s, who: summary_of(service.reject(s, number, who, reason=reason)), by_server, as_json, "Rejected.")


def changes(number: Number, reason: Reason, as_json: Json = False) -> None:
    """Send a candidate back to its drafters with the reason."""
    from pipeline.review import service
    from pipeline.review.presentation import summary_of

    done = "Sent back; its drafters work on it again."
    by_server = _at_server(number, "changes", reason=reason)
    _decide(lambda s, who: summary_of(service.request_changes(s, number, who, reason=reason)), by_server, as_json, done)


def strike(
    number: Number,
    patch: Annotated[int, typer.Option("--patch", min=1, help="Position of the patch.")],
    reason: Reason,
    as_json: Json = False,
) -> None:
    """Take one patch out of the set: a new candidate, verified anew."""
    from pipeline.review import service
    from pipeline.review.presentation import summary_of

    done = "Struck; the smaller set is verified anew."
    by_server = _at_server(number, "strike", position=patch, reason=reason)
    _decide(
        lambda s, who: summary_of(service.strike(s, number, who, position=patch, reason=reason)),
        by_server,
        as_json,
        done,
    )


def list_proposed_rules(
    every: Annotated[bool, typer.Option("--all", help="Decided ones too.")] = False, as_json: Json = False
) -> None:
    """List the rules that accepted patches of language models are uses of, with what their tests found."""
    from pipeline.rules.models import RuleState
    from pipeline.rules.repository import list_rules
    from pipeline.rules.service import rule_item

    rows = _read(
        lambda s: [rule_item(r) for r in list_rules(s, None if every else RuleState.WAITING)],
        lambda served: served.rules(every),
    )
    if as_json:
        print_json({"rules": rows})
        return
    for row in rows:
        mark = " (scripted)" if row["scripted"] else ""
        typer.echo(f"{row['id']:>4}  {row['state']:<9} {row['match']} = {row['to']} for {row['domain']}{mark}")
        tests = row["tests"]
        found = f"largest difference {tests['largest_difference']:.1e} at {tests['points']} points"
        typer.echo(
            f"      {found}, {tests['near_misses_refused']} near misses refused; from candidate {row['candidate']}"
        )
        typer.echo(
            f"      accept with: spyre-factory review accept-rule {row['id']} --seen {row['seen']} --reason TEXT"
        )
    if not rows:
        typer.echo("No rule waits.")


Seen = Annotated[str, typer.Option("--seen", help="The digest `review rules` printed.")]


def accept_rule(number: Number, seen: Seen, reason: Reason, as_json: Json = False) -> None:
    """Let the rules drafter use a proposed rule from now on; the gate judges what comes of it as ever."""
    _decide_rule(number, seen, reason, as_json, accept=True)


def reject_rule(number: Number, seen: Seen, reason: Reason, as_json: Json = False) -> None:
    """Refuse a proposed rule for good."""
    _decide_rule(number, seen, reason, as_json, accept=False)


def _decide_rule(number: int, seen: str, reason: str, as_json: bool, *, accept: bool) -> None:
    from pipeline.rules.service import decide_rule, rule_item

    said = "Accepted: `rules` uses it from now on." if accept else "Rejected."
    _decide(
        lambda s, who: rule_item(decide_rule(s, number, who, accept=accept, seen=seen, reason=reason)),
        lambda served: served.decide_rule(number, "accept" if accept else "reject", seen, reason),
        as_json,
        said,
    )


COMMANDS: dict[str, Callable[..., None]] = {
    "list": list_waiting,
    "show": show,
    "claim": claim,
    "approve": approve,
    "reject": reject,
    "changes": changes,
    "strike": strike,
    "rules": list_proposed_rules,
    "accept-rule": accept_rule,
    "reject-rule": reject_rule,
}


def _read(look: Callable[[Session], Any], at_server: Callable[[Client], Any]) -> Any:
    from pipeline.database.unit_of_work import reading

    with one_sentence():
        if (served := remote.service()) is not None:
            return at_server(served)
        with reading() as session:
            return look(session)


def _at_server(number: int, verb: str, **body: Any) -> Callable[[Client], dict[str, Any]]:
    return lambda served: served.decide(number, verb, **body)


def _decide(
    decision: Callable[[Session, Any], dict[str, Any]],
    at_server: Callable[[Client], dict[str, Any]],
    as_json: bool,
    done: str,
) -> dict[str, Any]:
    from pipeline.database.accounts import local_reviewer
    from pipeline.database.unit_of_work import unit_of_work

    with one_sentence():
        if (served := remote.service()) is not None:
            result = at_server(served)
        else:
            with unit_of_work() as session:
                result = decision(session, local_reviewer(session))
    if as_json:
        print_json(result)
    elif done:
        typer.echo(done)
    return result
