"""Principals and tokens by command: a secret is printed once, ends by its time or by a word, and fits its roles."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from pipeline.cli import accounts
from pipeline.database.accounts import NotLoggedIn, known_by, redeem_login
from pipeline.database.models import SessionKind
from pipeline.database.unit_of_work import unit_of_work

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
Run = Callable[..., Any]


@pytest.fixture
def run(database: str) -> Run:
    app = typer.Typer()
    accounts.register(app)

    def invoke(*words: str) -> Any:
        done = CliRunner().invoke(app, [*words, "--json"])
        return json.loads(done.stdout) if done.exit_code == 0 else done.stderr

    return invoke


def test_a_token_has_the_roles_of_its_principal_and_ends_by_a_word(run: Run) -> None:
    run("user", "create", "exporter", "--kind", "service", "--role", "requester")
    made = run("token", "create", "exporter", "--label", "nightly", "--days", "3")
    known = known_by(made["token"], SessionKind.BEARER)
    assert (known.name, known.roles) == ("exporter", "requester")
    listed = run("token", "list")["tokens"]
    assert [(row["label"], "token" in row) for row in listed] == [("nightly", False)]
    run("token", "revoke", str(made["id"]))
    with pytest.raises(NotLoggedIn):
        known_by(made["token"], SessionKind.BEARER)
    assert run("token", "list")["tokens"] == []


def test_a_link_is_of_a_human_and_works_once(run: Run) -> None:
    run("user", "create", "ada", "--role", "reviewer", "--role", "admin")
    token = run("user", "link", "ada")["link"].partition("?t=")[2]
    with unit_of_work() as session:
        assert redeem_login(session, token).session.principal.name == "ada"
    with pytest.raises(NotLoggedIn), unit_of_work() as session:
        redeem_login(session, token)
    run("user", "create", "robot", "--kind", "agent")
    assert "only humans log in" in run("user", "link", "robot")


def test_what_cannot_be_is_said_in_a_sentence(run: Run) -> None:
    assert "only a human can be a reviewer" in run("user", "create", "robot", "--kind", "agent", "--role", "reviewer")
    assert "no principal 'nobody'" in run("token", "create", "nobody")
    assert "no token 99" in run("token", "revoke", "99")
    assert "--role" in run("user", "create", "x", "--role", "king")
