"""Examples of the OpenAPI document: what a small installation of made-up models answers, route by route.

`python -m pytest tests/api/test_examples.py` compares the stored ones; set SPYRE_RECORD_EXAMPLES to write them anew.
"""

from __future__ import annotations

from typing import Any

from fastapi.testclient import TestClient

LONGEST_LIST, LONGEST_TEXT, DEEPEST = 1, 200, 6
SECRETS = {"token": "shown-once-and-never-again", "secret": "0" * 64}


def shortened(value: Any, depth: int = 0) -> Any:
    """An answer cut to what shows its form."""
    if isinstance(value, dict):
        return {k: SECRETS.get(k) or shortened(v, depth + 1) for k, v in value.items()} if depth < DEEPEST else {}
    if isinstance(value, list):
        return [shortened(item, depth + 1) for item in value[:LONGEST_LIST]] if depth < DEEPEST else []
    return value[:LONGEST_TEXT] if isinstance(value, str) and len(value) > LONGEST_TEXT else value


def recorded(client: TestClient, headers: dict[str, str], paths: dict[str, Any]) -> dict[str, Any]:
    """`METHOD path` to {"answer"} (and {"body"}) of every operation that answers JSON."""
    found: dict[str, Any] = {}
    values: dict[str, Any] = {"model": "acme/albert-one", "second": 1, "first": 1}
    for method, path, body, extra in STORY:
        url = path
        for name, value in {**values, **extra}.items():
            url = url.replace("{" + name + "}", str(value))
        decided = body is not None and path.startswith((f"{API}/reviews", f"{API}/rules", f"{API}/adapters"))
        more = {"If-Match": _seen(client, path, extra["number"])} if decided else {}
        answer = client.request(method, url, json=body, headers={**headers, **more})
        assert answer.is_success, (method, url, answer.text)
        document = answer.json()
        values |= {"request_id": document["id"]} if path == "/api/v1/requests" else {}
        plain = path.partition("?")[0]
        found[f"{method} {plain}"] = {"answer": shortened(document), **({"body": body} if body else {})}
    return {key: found[key] for key in sorted(found) if key.split()[1] in paths}


def _seen(client: TestClient, path: str, number: int) -> str:
    """What a decision on this review, adapter or rule has to name."""
    noun = path.split("/")[3]
    if noun in ("reviews", "adapters"):
        return str(client.get(f"{API}/{noun}/{number}").headers["etag"])
    rows = client.get(f"{API}/rules", params={"state": "all"}).json()["rules"]
    return next(f'"{row["seen"]}"' for row in rows if row["id"] == number)


Step = tuple[str, str, dict[str, Any] | None, dict[str, Any]]
API = "/api/v1"
STORY: tuple[Step, ...] = (
    ("GET", "/healthz", None, {}),
    ("GET", "/readyz", None, {}),
    ("GET", f"{API}/models?limit=1", None, {}),
    ("GET", f"{API}/models/{{model}}", None, {}),
    ("GET", f"{API}/coverage?by=op", None, {}),
    ("GET", f"{API}/coverage/history", None, {}),
    ("GET", f"{API}/capabilities", None, {}),
    ("GET", f"{API}/ops", None, {}),
    ("GET", f"{API}/profiles", None, {}),
    ("GET", f"{API}/profiles/compare?a=profile-2026-04&b=latest", None, {}),
    ("GET", f"{API}/diagnoses?limit=1", None, {}),
    ("GET", f"{API}/diagnoses/{{number}}", None, {"number": 1}),
    ("GET", f"{API}/candidates?limit=1", None, {}),
    ("GET", f"{API}/candidates/{{number}}", None, {"number": 1}),
    ("GET", f"{API}/evidence?limit=1", None, {}),
    ("POST", f"{API}/evidence/{{number}}/replay", {"threads": 2, "capability": "avx2"}, {"number": 1}),
    ("GET", f"{API}/evidence/{{number}}", None, {"number": 1}),
    ("GET", f"{API}/sweeps", None, {}),
    ("GET", f"{API}/sweeps/{{number}}", None, {"number": 1}),
    ("GET", f"{API}/sweeps/compare?first=1&second=2", None, {}),
    ("GET", f"{API}/runs/{{number}}", None, {"number": 1}),
    ("GET", f"{API}/bench", None, {}),
    ("GET", f"{API}/costs", None, {}),
    ("GET", f"{API}/rules", None, {}),
    ("POST", f"{API}/rules/{{number}}/accept", {"reason": "It holds on its domain."}, {"number": 1}),
    ("POST", f"{API}/rules/{{number}}/reject", {"reason": "Its domain is too wide."}, {"number": 2}),
    ("POST", f"{API}/requests", {"model": "acme/albert-one", "note": "for search"}, {}),
    ("GET", f"{API}/requests/{{request_id}}", None, {}),
    ("POST", f"{API}/requests/{{request_id}}/cancel", None, {}),
    ("GET", f"{API}/reviews", None, {}),
    ("GET", f"{API}/reviews/{{number}}", None, {"number": 1}),
    ("POST", f"{API}/reviews/{{number}}/claim", None, {"number": 1}),
    ("POST", f"{API}/reviews/{{number}}/approve", {"reason": "The mathematics is x*x*x."}, {"number": 1}),
    ("POST", f"{API}/reviews/{{number}}/reject", {"reason": "The mask is wrong."}, {"number": 2}),
    ("POST", f"{API}/reviews/{{number}}/changes", {"reason": "Use P54."}, {"number": 3}),
    ("POST", f"{API}/reviews/{{number}}/strike", {"reason": "Not needed.", "position": 1}, {"number": 4}),
    ("GET", f"{API}/blind-reviews/next", None, {}),
    ("POST", f"{API}/blind-reviews/{{number}}", {"answer": "approve", "reason": "x*x*x is pow(x, 3)."}, {"number": 1}),
    ("GET", f"{API}/blind-reviews/agreement", None, {}),
    ("GET", f"{API}/adapters", None, {}),
    ("GET", f"{API}/adapters/{{number}}", None, {"number": 1}),
    ("POST", f"{API}/adapters/{{number}}/withdraw", {"reason": "It is wrong for long texts."}, {"number": 1}),
    ("GET", f"{API}/audit?limit=1", None, {}),
    ("GET", f"{API}/audit/decisions", None, {}),
    ("POST", f"{API}/tokens", {"label": "nightly export", "expires_in_days": 30}, {}),
    ("GET", f"{API}/tokens", None, {}),
    ("GET", f"{API}/messages?limit=1", None, {}),
    ("GET", f"{API}/messages/secret", None, {}),
)
