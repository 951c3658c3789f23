"""A running service for end-to-end tests: the real `up` in a process of its own, and a reviewer's session over HTTP."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx

LOGIN = re.compile(r"(http://\S+)/login\?t=(\S+)")
START_S, STOP_S = 120.0, 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Service:
    """`spyre-factory up` with its own data directory; a context manager that ends it and checks that it ended."""

    def __init__(self, data_dir: Path, settings: Mapping[str, str], *arguments: str) -> None:
        self.port = free_port()
        self.log = data_dir.with_suffix(".log")
        self.data_dir = data_dir
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPYRE_FACTORY_", "OPENAI_", "HF_"))}
        own = {"SPYRE_FACTORY_DATA_DIR": str(data_dir), "SPYRE_FACTORY_DEMO": "true", "PYTHONUNBUFFERED": "1"}
        self.environment = {**kept, **own, **settings}
        self.arguments = arguments
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Service:
        argv = [sys.executable, "-c", "from pipeline.cli.main import main; main()", "up", "--port", str(self.port)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*argv, *self.arguments], env=self.environment, stdout=log, stderr=subprocess.STDOUT, text=True
            )
        self.client = httpx.Client(base_url=self.url, headers={"Origin": self.url}, timeout=60)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(STOP_S)
        finally:
            self.process.kill()
            self.process.wait()

    def printed(self) -> str:
        """What `up` has printed so far."""
        return self.log.read_text()

    def command(self, *arguments: str) -> str:
        """What `spyre-factory` prints over this service's data, run as a user would; it must succeed."""
        argv = [str(Path(sys.executable).with_name("spyre-factory")), *arguments]
        done = subprocess.run(argv, env=self.environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, f"{arguments}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    def wait_for(self, what: str, answer: Callable[[], Any], limit_s: float) -> Any:
        """The first true answer. Fails with what `up` printed if the process ends or the limit passes."""
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            found = answer()
            if found:
                return found
            assert self.process.poll() is None, f"`up` ended while waiting for {what}:\n{self.printed()}"
            time.sleep(0.5)
        raise AssertionError(f"no {what} within {limit_s} s:\n{self.printed()}")

    def log_in(self) -> None:
        """Redeem the one-time link that `up` printed; later requests of `client` decide as the reviewer."""
        found = self.wait_for("login link", lambda: LOGIN.search(self.printed()), START_S)
        page = self.client.get("/login", params={"t": found[2]})
        csrf = re.search(r'name="csrf" value="([^"]*)"', page.text)
        answer = self.client.post("/login", data={"t": found[2], "csrf": csrf[1] if csrf else ""})
        assert answer.status_code == 303, answer.text
        token = re.search(r'name="csrf" value="([^"]*)"', self.client.get("/").text)
        assert token, "no form token on the overview"
        self.client.headers["X-CSRF-Token"] = token[1]

    def get(self, path: str, **query: Any) -> Any:
        """The JSON of a GET."""
        answer = self.client.get(f"/api/v1/{path}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()
