"""Examples in the OpenAPI document: answers of an installation of made-up models, recorded by `tests/api`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "examples.json"
JSON = "application/json"


def stored_examples() -> dict[str, Any]:
    """`METHOD path` to its "answer" and, where it takes one, its "body"."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def add_examples(document: dict[str, Any]) -> None:
    """Put each example where its operation describes the answer or the body."""
    for name, example in stored_examples().items():
        method, path = name.split()
        operation = document["paths"].get(path, {}).get(method.lower(), {})
        for code in ("200", "201", "202"):
            content = operation.get("responses", {}).get(code, {}).get("content", {})
            if JSON in content:
                content[JSON]["example"] = example["answer"]
        body = operation.get("requestBody", {}).get("content", {}).get(JSON)
        if body is not None and "body" in example:
            body["example"] = example["body"]
