"""Secrets are taken out of texts wherever they come from."""

from __future__ import annotations

from typing import Any

import pytest

from agents.redact import HIDDEN, Redactor, redactor_of

CANARY = "canary-key-7f3a91c2"


def test_given_secrets_and_those_of_the_environment_are_taken_out() -> None:
    environ = {"HF_TOKEN": "token-abcdef", "DB_PASSWORD": "hunter22", "HOME": "/home/me", "X_API_KEY": "ab"}
    redactor = redactor_of(CANARY, "https://me:pass-word@host/v1", environ)
    text = f"{CANARY} token-abcdef hunter22 /home/me pass-word ab"
    assert redactor.text(text) == f"{HIDDEN} {HIDDEN} {HIDDEN} /home/me {HIDDEN} ab"


@pytest.mark.parametrize(
    "key", ["sk-proj-0123456789abcdef", "hf_abcdefghijklmnopqr", "ghp_abcdefghijklmnopqrst", "Bearer abc.def-123456"]
)
def test_keys_of_known_services_are_taken_out_wherever_they_come_from(key: str) -> None:
    assert Redactor().text(f"x {key} y") == f"x {'Bearer ' if 'Bearer' in key else ''}{HIDDEN} y"


def test_code_is_left_as_it_is() -> None:
    code = "def forward(x):\n    return torch.where(x > 0, x, -0.5 * x)  # task-force sk-ip\n"
    assert Redactor((CANARY,)).text(code) == code


def test_nested_data_is_redacted_names_included() -> None:
    data = {"a": [f"x{CANARY}", {CANARY: 3, "n": None}], "b": (1, True)}
    assert Redactor((CANARY,)).data(data) == {"a": [f"x{HIDDEN}", {HIDDEN: 3, "n": None}], "b": [1, True]}


def test_what_is_nested_without_end_is_cut() -> None:
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]
    assert "x" not in repr(Redactor().data(deep))
