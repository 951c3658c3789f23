"""Every block of the README's first screen runs as it stands there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .service import free_port

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [(m[1], m[2]) for m in BLOCK.finditer((ROOT / "README.md").read_text())]
START_S, STOP_S = 120.0, 12.0


def block(language: str, containing: str) -> str:
    found = [text for kind, text in BLOCKS if kind == language and containing in text]
    assert len(found) == 1, f"README has {len(found)} {language!r} blocks with {containing!r}"
    return found[0]


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPYRE_FACTORY_", "OPENAI_"))}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**kept, "PATH": path, "SPYRE_FACTORY_DATA_DIR": str(tmp_path / "data"), "PYTHONUNBUFFERED": "1", **more}


def shell(text: str, env: dict[str, str]) -> str:
    done = subprocess.run(["bash", "-ec", text], cwd=ROOT, env=env, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_first_block_is_the_two_commands_of_the_makefile() -> None:
    assert BLOCKS[0][1].split("\n")[:2] == ["make run", "make test"]
    targets = re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"run", "test"} <= set(targets)
    assert (ROOT / ".ci/run").read_text().rstrip().endswith("make test")


@pytest.mark.timeout(600)
def test_the_check_block_passes_with_the_bundled_adapter(tmp_path: Path) -> None:
    printed = shell(block("sh", "spyre-factory check"), environment(tmp_path))
    assert "passed" in printed
    assert "real weights" in printed


@pytest.mark.timeout(600)
def test_the_encode_block_prints_the_shape_of_two_embeddings(tmp_path: Path) -> None:
    script = tmp_path / "snippet.py"
    script.write_text(block("python", "encode"))
    assert shell(f"python {script}", environment(tmp_path)).strip().endswith("(2, 384)")


@pytest.mark.timeout(600)
def test_make_run_serves_answers_the_curl_block_and_ends_on_ctrl_c(tmp_path: Path) -> None:
    port = free_port()
    env = environment(tmp_path, SPYRE_FACTORY_PORT=str(port))
    log = tmp_path / "run.log"
    with log.open("w") as out:
        running = subprocess.Popen(["make", "run"], cwd=ROOT, env=env, stdout=out, stderr=out, start_new_session=True)
    try:
        until = time.monotonic() + START_S
        while "Dashboard http" not in log.read_text():
            assert time.monotonic() < until, log.read_text()
            assert running.poll() is None, log.read_text()
            time.sleep(0.2)
        assert "No card needed, none used." in log.read_text()
        answer = shell(block("sh", "curl").replace(":8000", f":{port}"), env)
        assert '"id"' in answer
        assert '"model":"BAAI/bge-small-en-v1.5"' in answer.replace(": ", ":")
        os.killpg(running.pid, signal.SIGINT)
        running.wait(STOP_S)
        assert "Ended." in log.read_text()
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
