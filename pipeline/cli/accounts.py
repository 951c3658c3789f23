"""`spyre-factory user create | link | list` and `token create | list | revoke`: who may do what here.

Whoever can read the data directory is in charge of it: these commands need no token, and have no route of the API.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

import typer

from pipeline.cli.output import one_sentence, print_json
from pipeline.settings import get_settings

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Name = Annotated[str, typer.Argument(help="Name of the principal.")]
LONGEST_DAYS = 90


def register(app: typer.Typer) -> None:
    """Add both groups."""
    users = typer.Typer(no_args_is_help=True, help="Principals: people, services, agents.")
    users.command("create")(create)
    users.command("link")(link)
    users.command("list")(list_all)
    tokens = typer.Typer(no_args_is_help=True, help="Bearer tokens.")
    tokens.command("create")(create_token)
    tokens.command("list")(list_tokens)
    tokens.command("revoke")(revoke_token)
    app.add_typer(users, name="user")
    app.add_typer(tokens, name="token")


def create(
    name: Name,
    role: Annotated[list[str] | None, typer.Option("--role", help="viewer, requester, reviewer, admin.")] = None,
    kind: Annotated[str, typer.Option("--kind", help="human, service or agent.")] = "human",
    as_json: Json = False,
) -> None:
    """Make a principal, or give an existing one more roles. Only humans can be reviewers."""
    from pipeline.database.accounts import ensure_principal
    from pipeline.database.models import PrincipalKind, Role
    from pipeline.database.unit_of_work import unit_of_work
    from pipeline.sweeps.schemas import checked

    with one_sentence():
        roles = [Role(checked("--role", one, tuple(Role))) for one in role or ["viewer"]]
        sort = PrincipalKind(checked("--kind", kind, tuple(PrincipalKind)))
        with unit_of_work() as session:
            row = _principal(ensure_principal(session, name, sort, roles))
    _print(row, as_json, f"{row['name']} ({row['kind']}): {', '.join(row['roles'])}")


def link(name: Name, as_json: Json = False) -> None:
    """Print a login link of a human that works once, within 12 hours."""
    from pipeline.database.accounts import find_principal, issue
    from pipeline.database.models import PrincipalKind, SessionKind
    from pipeline.database.unit_of_work import unit_of_work
    from pipeline.errors import BadInput
    from pipeline.work.installation import dashboard_url

    with one_sentence(), unit_of_work() as session:
        principal = find_principal(session, name)
        if principal.kind != PrincipalKind.HUMAN:
            raise BadInput(f"{name!r} is a {principal.kind}: only humans log in; make a token.")
        token = issue(session, principal, SessionKind.LOGIN, "by command").token
    url = f"{dashboard_url(get_settings())}/login?t={token}"
    _print({"name": name, "link": url}, as_json, url)


def list_all(as_json: Json = False) -> None:
    """List every principal with its roles."""
    from pipeline.database.models import Principal
    from pipeline.database.unit_of_work import reading

    with one_sentence(), reading() as session:
        rows = [_principal(row) for row in session.query(Principal).order_by(Principal.id)]
    lines = [f"{row['id']:>4}  {row['name']:<24} {row['kind']:<8} {', '.join(row['roles'])}" for row in rows]
    _print({"principals": rows}, as_json, "\n".join(lines))


def create_token(
    name: Name,
    label: Annotated[str, typer.Option("--label", help="What it is for.")] = "by command",
    days: Annotated[int, typer.Option("--days", min=1, max=LONGEST_DAYS, help="How long it is good.")] = LONGEST_DAYS,
    as_json: Json = False,
) -> None:
    """Make a bearer token with the roles of its principal. It is printed once and stored as a digest only."""
    from pipeline.database.accounts import find_principal, issue
    from pipeline.database.models import SessionKind
    from pipeline.database.unit_of_work import unit_of_work

    with one_sentence(), unit_of_work() as session:
        made = issue(session, find_principal(session, name), SessionKind.BEARER, label, timedelta(days=days))
        row = {**_token(made.session), "token": made.token}
    _print(row, as_json, made.token)


def list_tokens(as_json: Json = False) -> None:
    """List the tokens that are good now."""
    from pipeline.database.models import LoginSession, SessionKind
    from pipeline.database.unit_of_work import database_now, reading

    with one_sentence(), reading() as session:
        live = session.query(LoginSession).filter_by(kind=SessionKind.BEARER, revoked_at=None)
        now = database_now(session)
        rows = [_token(row) for row in live.order_by(LoginSession.id) if row.expires_at > now]
    lines = [f"{row['id']:>4}  {row['name']:<24} {row['label']:<24} until {row['expires_at']}" for row in rows]
    _print({"tokens": rows}, as_json, "\n".join(lines) or "No token is good now.")


def revoke_token(number: Annotated[int, typer.Argument(min=1)], as_json: Json = False) -> None:
    """End a token or session; it is worthless from now on."""
    from pipeline.database.accounts import revoke
    from pipeline.database.models import LoginSession
    from pipeline.database.unit_of_work import unit_of_work
    from pipeline.errors import NotFound

    with one_sentence(), unit_of_work() as session:
        row = session.get(LoginSession, number)
        if row is None:
            raise NotFound(f"There is no token {number}: `spyre-factory token list` shows them.")
        revoke(session, row)
        told = _token(row)
    _print(told, as_json, f"Token {number} of {told['name']} is revoked.")


def _principal(row: Any) -> dict[str, Any]:
    return {"id": row.id, "name": row.name, "kind": str(row.kind), "roles": sorted(held.role for held in row.roles)}


def _token(row: Any) -> dict[str, Any]:
    ends = row.expires_at.isoformat()
    return {"id": row.id, "name": row.principal.name, "kind": str(row.kind), "label": row.label, "expires_at": ends}


def _print(document: dict[str, Any], as_json: bool, text: str) -> None:
    if as_json:
        print_json(document)
    else:
        typer.echo(text)
