"""The application as a whole: light to start, true to its OpenAPI document, problem documents for every error."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from fastapi.testclient import TestClient

from pipeline.settings import Settings

LIGHT = """
import sys
from fastapi.testclient import TestClient
from api.app import create_app
from pipeline.database import migrate
from pipeline.settings import get_settings
migrate.upgrade(get_settings().sqlalchemy_url)
with TestClient(create_app(), base_url="http://127.0.0.1:8000") as client:
    assert client.get("/").status_code == client.get("/api/v1/models").status_code == 200
print([name for name in ("torch", "transformers", "sentence_transformers") if name in sys.modules])
"""


def test_pages_and_rest_need_neither_torch_nor_transformers(settings: Settings) -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def references(node: Any) -> set[str]:
    if isinstance(node, dict):
        own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
        return own.union(*(references(value) for value in node.values()))
    return set().union(*(references(value) for value in node)) if isinstance(node, list) else set()


def test_every_reference_of_the_openapi_document_resolves(client: TestClient) -> None:
    document = client.get("/api/v1/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    names = {ref.removeprefix("#/components/schemas/") for ref in references(document)}
    assert names <= set(document["components"]["schemas"])
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_every_operation_announces_problem_documents(client: TestClient) -> None:
    paths = client.get("/api/v1/openapi.json").json()["paths"]
    operations = [operation for methods in paths.values() for operation in methods.values()]
    assert len(operations) >= 20
    assert all({"4XX", "5XX"} <= set(operation["responses"]) for operation in operations)
    assert all(operation.get("description") for operation in operations)


@pytest.mark.parametrize("path", ["/api/v1/models", "/api/v1/coverage", "/api/v1/adapters", "/api/v1/reviews"])
def test_an_unknown_query_field_is_refused(client: TestClient, path: str) -> None:
    answer = client.get(path, params={"outcom": "passed"})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["errors"][0]["where"] == "query.outcom"


def test_an_unknown_body_field_is_refused(client: TestClient) -> None:
    answer = client.post("/api/v1/requests", json={"model": "a/b", "callback": "http://10.0.0.1"})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/v1/models/nobody/listed-this", 404, "unknown_model"),
        ("/api/v1/reviews/77", 404, "unknown_candidate"),
        ("/api/v1/reviews/0", 422, "invalid_request"),
        ("/api/v1/reviews/99999999999999999999", 422, "invalid_request"),
        ("/api/v1/adapters/77", 404, "unknown_adapter"),
        ("/api/v1/sweeps/77", 404, "unknown_sweep"),
        ("/api/v1/runs/77", 404, "not_found"),
        ("/api/v1/requests/nope", 422, "invalid_request"),
        ("/api/v1/requests/00000000-0000-0000-0000-000000000000", 404, "unknown_request"),
        ("/api/v1/requests/00000000-0000-0000-0000-000000000000/events", 404, "unknown_request"),
        ("/api/v1/sweeps/77/events", 404, "unknown_sweep"),
        ("/api/v1/artefacts/" + "0" * 64, 404, "not_found"),
        ("/api/v1/artefacts/..%2F..%2Fetc", 404, "not_found"),
        ("/api/v1/models?cursor=%00", 422, "bad_cursor"),
        ("/api/v1/models?cursor=W10", 422, "bad_cursor"),
        ("/api/v1/models?limit=100000", 422, "invalid_request"),
        ("/api/v1/models?profile=../x", 422, "invalid_request"),
        ("/api/v1/nothing", 404, "not_found"),
    ],
)
def test_errors_are_problem_documents(client: TestClient, path: str, status: int, code: str) -> None:
    answer = client.get(path)
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (answer.status_code, problem["status"], problem["code"]) == (status, status, code)
    assert problem["type"] == f"urn:spyre-factory:problem:{code}"
    assert problem["detail"]
    assert problem["title"]


def test_a_wrong_method_says_which_are_right(client: TestClient) -> None:
    answer = client.delete("/api/v1/coverage")
    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert "GET" in answer.headers["allow"]


@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b"\xff\xfe", json.dumps({"model": "a" * 300}).encode()])
def test_a_broken_body_is_the_callers_fault(client: TestClient, body: bytes) -> None:
    answer = client.post("/api/v1/requests", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"


def test_our_own_fault_is_a_problem_document_without_details(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from api.app import create_app

    def broken(*_args: object) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr("api.rest.models.coverage", broken)
    with TestClient(create_app(), base_url="http://127.0.0.1:8000", raise_server_exceptions=False) as client:
        answer = client.get("/api/v1/coverage")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert "secret" not in answer.text


def test_a_database_without_tables_says_what_to_do(settings: Settings) -> None:
    from api.app import create_app

    with TestClient(create_app(), base_url="http://127.0.0.1:8000") as client:
        assert client.get("/healthz").json() == {"status": "ok"}
        answer = client.get("/readyz")
        page = client.get("/", headers={"Accept": "text/html"})
    assert (answer.status_code, answer.json()["code"]) == (503, "schema_outdated")
    assert "spyre-factory db upgrade" in page.text
    assert page.status_code == 503
