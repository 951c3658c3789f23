"""The list of models for programs: its filters, its order, its exports; as `model_details` shows each model."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

NAMES = ("stock-real/one", "stock/two", "pow/three", "remote/four", "unsure/five")


@pytest.fixture
def listed(client: TestClient, sweep: Callable[..., int]) -> TestClient:
    """A client of an installation with five models."""
    sweep(*NAMES)
    return client


def names(answer: Any) -> list[str]:
    return [item["model"] for item in answer.json()["models"]]


def test_each_item_says_what_the_model_itself_says(listed: TestClient) -> None:
    for item in listed.get("/api/v1/models").json()["models"]:
        details = listed.get(f"/api/v1/models/{item['model']}").json()
        assert item == {key: details[key] for key in item}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"weights": "real"}, {"stock-real/one"}),
        ({"kind": "remote_code"}, {"remote/four"}),
        ({"supported": "true", "weights": "synthetic"}, {"stock/two"}),
        ({"op": "aten.no_such_operation.default"}, set()),
        ({"search": "STOCK", "outcome": "passed"}, {"stock-real/one", "stock/two"}),
        ({"search": "%"}, set()),
        ({"search": "stock_two"}, set()),
        ({"search": "stock/t"}, {"stock/two"}),
    ],
)
def test_filters_narrow_together(listed: TestClient, query: dict[str, str], found: set[str]) -> None:
    assert set(names(listed.get("/api/v1/models", params=query))) == found


def test_a_failing_operation_and_a_family_find_their_models(listed: TestClient) -> None:
    details = listed.get("/api/v1/models/pow/three").json()
    op = details["failures"][0]["op"]
    assert names(listed.get("/api/v1/models", params={"op": op})) == ["pow/three"]
    family = listed.get("/api/v1/coverage", params={"by": "family"}).json()["groups"][0]
    found = names(listed.get("/api/v1/models", params={"family": family["name"]}))
    assert len(found) == family["total"]


@pytest.mark.parametrize("sort", ["downloads", "name"])
def test_pages_of_one_give_the_whole_list_in_its_order(listed: TestClient, sort: str) -> None:
    whole = names(listed.get("/api/v1/models", params={"sort": sort}))
    paged: list[str] = []
    cursor = None
    for _ in range(len(NAMES) + 1):
        asked: dict[str, Any] = {"sort": sort, "limit": 1} | ({"cursor": cursor} if cursor else {})
        answer = listed.get("/api/v1/models", params=asked)
        paged += names(answer)
        cursor = answer.json()["next"]
        if cursor is None:
            break
    assert paged == whole
    assert sorted(whole) == sorted(NAMES)


def test_exports_hold_every_item_that_the_filters_let_through(listed: TestClient) -> None:
    items = listed.get("/api/v1/models").json()["models"]
    lines = listed.get("/api/v1/models/export").text.splitlines()
    assert [json.loads(line) for line in lines] == items
    rows = list(csv.DictReader(io.StringIO(listed.get("/api/v1/models/export", params={"format": "csv"}).text)))
    assert [row["model"] for row in rows] == [item["model"] for item in items]
    narrowed = listed.get("/api/v1/models/export", params={"outcome": "passed"}).text.splitlines()
    assert len(narrowed) == 2


def test_an_exported_cell_is_never_a_formula() -> None:
    from api.model_list import KEYS, as_csv

    item = dict.fromkeys(KEYS, "=1+1") | {"rank": -3}
    _, line = as_csv(iter([item]))
    cells = next(csv.reader(io.StringIO(line.decode())))
    assert set(cells) == {"'=1+1", "-3"}


def test_a_revoked_or_expired_token_is_refused_at_once(client: TestClient, reviewer: dict[str, str]) -> None:
    from datetime import timedelta

    from pipeline.database.accounts import revoke, session_of
    from pipeline.database.models import SessionKind
    from pipeline.database.unit_of_work import database_now, unit_of_work

    secret = reviewer["Authorization"].removeprefix("Bearer ")
    assert client.get("/api/v1/models", headers=reviewer).status_code == 200
    with unit_of_work() as session:
        row = session_of(session, secret, SessionKind.BEARER)
        row.expires_at = database_now(session) - timedelta(seconds=1)
    assert client.get("/api/v1/models", headers=reviewer).status_code == 401
    with unit_of_work() as session:
        row.expires_at = database_now(session) + timedelta(hours=1)
        revoke(session, session.merge(row))
    assert client.get("/api/v1/models", headers=reviewer).status_code == 401
