"""The endpoint over HTTP: format, determinism, bad requests, faults, its end."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from agents.endpoint import Fault, Running, make_server, serve

BODY: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": "aten.pow NewGELUActivation"}]}
TOOLS = [{"type": "function", "function": {"name": "submit", "parameters": {}}}]


@pytest.fixture
def endpoint() -> Iterator[Running]:
    with serve() as running:
        yield running


def post(running: Running, body: Any) -> httpx.Response:
    return httpx.post(f"{running.url}/chat/completions", json=body, timeout=10, trust_env=False)


def test_the_model_list_names_the_one_scripted_model(endpoint: Running) -> None:
    data = httpx.get(f"{endpoint.url}/models", timeout=10, trust_env=False).json()["data"]
    assert [(m["id"], m["owned_by"]) for m in data] == [("scripted", "spyre-factory scripted endpoint")]


def test_with_tools_the_answer_is_a_call_and_without_it_is_a_block(endpoint: Running) -> None:
    called = post(endpoint, {**BODY, "tools": TOOLS}).json()["choices"][0]
    assert called["finish_reason"] == "tool_calls"
    assert called["message"]["tool_calls"][0]["function"]["name"] == "read_source"
    said = post(endpoint, BODY).json()["choices"][0]
    assert said["finish_reason"] == "stop"
    assert '```tool\n{"tool": "read_source"' in said["message"]["content"]


def test_the_same_conversation_gets_the_same_bytes(endpoint: Running) -> None:
    assert post(endpoint, BODY).content == post(endpoint, BODY).content


def test_usage_is_reported(endpoint: Running) -> None:
    usage = post(endpoint, BODY).json()["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert min(usage.values()) > 0


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ([], 400),
        ({"model": "scripted"}, 400),
        ({"model": "scripted", "messages": ["x"]}, 400),
        ({"model": "scripted", "messages": []}, 400),
        ({**BODY, "model": "gpt"}, 404),
        ({**BODY, "stream": True}, 400),
    ],
)
def test_bad_requests_get_an_error_in_the_format(endpoint: Running, body: Any, status: int) -> None:
    response = post(endpoint, body)
    assert response.status_code == status
    assert response.json()["error"]["message"]


def test_unknown_paths_are_not_found(endpoint: Running) -> None:
    assert httpx.get(f"{endpoint.url}/secrets", timeout=10, trust_env=False).status_code == 404
    assert httpx.post(f"{endpoint.url}/embeddings", json={}, timeout=10, trust_env=False).status_code == 404


def test_what_is_not_json_or_too_large_is_refused(endpoint: Running) -> None:
    url = f"{endpoint.url}/chat/completions"
    assert httpx.post(url, content=b"{", timeout=10, trust_env=False).status_code == 400
    with socket.create_connection(("127.0.0.1", endpoint.port), timeout=10) as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n")
        assert b" 413 " in connection.recv(4096)


@pytest.mark.parametrize(("fault", "status"), [(Fault.RATE_LIMIT, 429), (Fault.SERVER_ERROR, 500)])
def test_a_fault_is_shown_so_many_times(fault: Fault, status: int) -> None:
    with serve(fault=fault, times=2) as running:
        assert [post(running, BODY).status_code for _ in range(3)] == [status, status, 200]


def test_an_endpoint_that_refuses_tools_answers_without_them() -> None:
    with serve(fault=Fault.REFUSE_TOOLS) as running:
        assert post(running, {**BODY, "tools": TOOLS}).status_code == 400
        assert post(running, BODY).status_code == 200


def test_malformed_arguments_no_usage_and_truncation() -> None:
    with serve(fault=Fault.MALFORMED_ARGUMENTS) as running:
        message = post(running, {**BODY, "tools": TOOLS}).json()["choices"][0]["message"]
        assert not message["tool_calls"][0]["function"]["arguments"].endswith("}")
    with serve(fault=Fault.NO_USAGE) as running:
        assert "usage" not in post(running, BODY).json()
    with serve(fault=Fault.TRUNCATED) as running:
        assert post(running, BODY).json()["choices"][0]["finish_reason"] == "length"


def test_the_endless_answer_ends_with_the_server() -> None:
    with serve(fault=Fault.ENDLESS) as running:
        connection = socket.create_connection(("127.0.0.1", running.port), timeout=10)
        body = b'{"model": "scripted", "messages": [{"role": "user", "content": "x"}]}'
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        connection.sendall(head + body)
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    connection.close()


def test_a_busy_port_is_an_os_error(endpoint: Running) -> None:
    with pytest.raises(OSError):
        make_server(endpoint.port)


def test_it_listens_on_loopback_only(endpoint: Running) -> None:
    assert endpoint.server.server_address[0] == "127.0.0.1"
