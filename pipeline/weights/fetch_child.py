"""Runs the fetcher in a process of its own: the only one that gets `HF_TOKEN` and may use the network.

    python -m pipeline.weights.fetch_child --model ORG/NAME --cache DIR [--revision R] [--cap BYTES]

prints one JSON document: the stored checkpoint, or the error with its code, kind and sentence.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from pipeline.errors import BadInput, CheckpointProblem, EnvironmentProblem, FactoryError, NotFound
from pipeline.weights.cache import DEFAULT_CAP_BYTES, WeightsCache
from pipeline.weights.children_env import FIXED, SYSTEM_PATH
from pipeline.weights.fetch import Fetched, fetch

PASSED_ON = (
    "HF_TOKEN",
    "HF_ENDPOINT",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)
"""What the fetcher gets of our environment, where it is set."""

FETCH_LIMIT_S = 3600.0
_PR_SET_PDEATHSIG = 1


def fetch_in_child(
    model_id: str,
    revision: str | None = None,
    *,
    cache_dir: Path,
    cap_bytes: int = DEFAULT_CAP_BYTES,
    limit_s: float = FETCH_LIMIT_S,
) -> Fetched:
    """As `fetch.fetch`, in a child that is killed with its group after `limit_s` seconds. Raises the same errors."""
    arguments = ["--model", model_id, "--cache", str(cache_dir), "--cap", str(cap_bytes)]
    arguments += ["--parent", str(os.getpid())]
    arguments += ["--revision", revision] if revision else []
    with tempfile.TemporaryDirectory(prefix="spyre-fetch-") as home:
        document = _run([sys.executable, "-m", "pipeline.weights.fetch_child", *arguments], Path(home), limit_s)
    return _result(document)


def fetcher_env(home: Path) -> dict[str, str]:
    """The whole environment of the fetcher: a system path, its own home, and `PASSED_ON`."""
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    own = {"PATH": ":".join(SYSTEM_PATH), "HOME": str(home), "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1"}
    return {**FIXED, **own, **passed}


def _run(command: list[str], home: Path, limit_s: float) -> dict[str, Any]:
    child = subprocess.Popen(
        command, env=fetcher_env(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        output, errors = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired as error:
        raise EnvironmentProblem(f"the fetch took longer than {limit_s:.0f} s; it is resumed later") from error
    finally:
        _end(child)
    try:
        return json.loads(output)
    except ValueError as error:
        last = errors.decode(errors="replace").strip().rpartition("\n")[2][-200:]
        raise EnvironmentProblem(
            f"the fetcher ended with code {child.returncode} ({last}); it is tried again"
        ) from error


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


_ERRORS: dict[str, type[FactoryError]] = {e.code: e for e in (BadInput, NotFound, EnvironmentProblem)}


def _result(document: dict[str, Any]) -> Fetched:
    error = document.get("error")
    if error is None:
        return Fetched(**{**document, "path": Path(document["path"])})
    if error["kind"] is not None:
        raise CheckpointProblem(error["kind"], error["message"])
    raise _ERRORS.get(error["code"], EnvironmentProblem)(error["message"])


def _die_with_parent(parent: int | None) -> None:
    """Asks the kernel (Linux) for SIGKILL when the parent ends; one that has ended already is noticed by its id."""
    if parent is not None:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            raise SystemExit(1)


def main() -> int:
    """Fetches and prints the document. Exit code 1 with an error in it."""
    parser = argparse.ArgumentParser(description="Fetches a checkpoint into the weights cache.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--revision")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--cap", type=int, default=DEFAULT_CAP_BYTES)
    parser.add_argument("--parent", type=int, help="process id to end with")
    options = parser.parse_args()
    _die_with_parent(options.parent)
    try:
        document = fetch(options.model, options.revision, cache=WeightsCache(options.cache, options.cap)).to_dict()
    except FactoryError as error:
        document = {"error": {"code": error.code, "kind": getattr(error, "kind", None), "message": str(error)}}
    sys.stdout.write(json.dumps(document) + "\n")
    return 1 if "error" in document else 0


if __name__ == "__main__":
    raise SystemExit(main())
