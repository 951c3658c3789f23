"""The OpenAPI document's examples: one for every operation that answers JSON, each of its own schema's form."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema_rs
import pytest
from fastapi.testclient import TestClient

from api.examples import FILE, stored_examples
from pipeline.database.unit_of_work import unit_of_work
from pipeline.review.repository import get_candidate
from pipeline.rules.service import store_rule

from .recorder import recorded

RULE: dict[str, Any] = {
    "name": "", "match": "pow(x, 3.0)", "to": "mul(x, mul(x, x))", "domain": "|x| <= 8",
    "near_misses": ["pow(x, 4.0)"], "tests": {"points": 5, "largest_difference": 0.0, "near_misses_refused": 1},
    "data": {},
}  # fmt: skip


@pytest.fixture
def document(client: TestClient) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/api/v1/openapi.json").json()
    return found


def json_operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Name, operation and content of every operation with a JSON answer."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            answers = (operation["responses"].get(code, {}) for code in ("200", "201", "202"))
            content = [a["content"]["application/json"] for a in answers if "application/json" in a.get("content", {})]
            if content and "$ref" in content[0].get("schema", {}):
                yield f"{method.upper()} {path}", operation, content[0]


def test_every_operation_has_an_example_of_its_schemas_form(document: dict[str, Any]) -> None:
    components = {"components": document["components"]}
    names = []
    for name, operation, content in json_operations(document):
        names.append(name)
        jsonschema_rs.Draft202012Validator({**content["schema"], **components}).validate(content["example"])
        if "requestBody" in operation:
            body = operation["requestBody"]["content"]["application/json"]
            jsonschema_rs.Draft202012Validator({**body["schema"], **components}).validate(body["example"])
    assert len(names) >= 35
    assert sorted(names) == sorted(stored_examples())


def test_a_real_installation_answers_with_the_fields_of_the_examples(
    client: TestClient, sweep: Callable[..., int], reviewer: dict[str, str], document: dict[str, Any]
) -> None:
    sweep("acme/albert-one", "acme/bert-stock-real", "acme/xlm-two", "acme/mpnet-three", "acme/roberta-four")
    sweep("acme/albert-one")
    with unit_of_work() as session:
        candidate = get_candidate(session, 1)
        for name in ("drafted_pow_1", "drafted_pow_2"):
            store_rule(session, candidate, candidate.patches[0], {**RULE, "name": name, "to": f"{RULE['to']} #{name}"})
    found = recorded(client, reviewer, document["paths"])
    if os.environ.get("SPYRE_RECORD_EXAMPLES"):
        FILE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    stored = stored_examples()
    assert {name: sorted(entry["answer"]) for name, entry in found.items()} == {
        name: sorted(entry["answer"]) for name, entry in stored.items()
    }
