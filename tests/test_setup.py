"""`make setup` names what the machine lacks in one sentence, before anything is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = ("bash", "dirname", "uname", "cat", "sha256sum", "cut", "rm", "touch", "env", "python3", "g++")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the files setup reads and a PATH of links to just the tools it uses."""
    for name in ("requirements", "adapters"):
        (tmp_path / name).mkdir()
    for name in ("requirements/setup.sh", "requirements/lock.txt", "pyproject.toml", "adapters/pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        found = sys.executable if tool == "python3" else shutil.which(tool)
        assert found, f"{tool} is needed to run this test"
        (tmp_path / "bin" / tool).symlink_to(found)
    return tmp_path


def setup(checkout: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "requirements/setup.sh"],
        cwd=checkout,
        env={"PATH": str(checkout / "bin"), "HOME": str(checkout), **env},
        capture_output=True,
        text=True,
        timeout=60,
    )


def assert_refused(done: subprocess.CompletedProcess[str], checkout: Path, sentence: str) -> None:
    assert done.returncode == 1
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (checkout / ".venv").exists()


def test_a_missing_python_is_one_sentence(checkout: Path) -> None:
    assert_refused(setup(checkout, PYTHON="python9"), checkout, "no python9 found: install Python 3.11 or newer")


def test_a_missing_compiler_is_one_sentence(checkout: Path) -> None:
    (checkout / "bin/g++").unlink()
    assert_refused(setup(checkout), checkout, "no C++ compiler found: install the system package g++")


def test_a_compiler_without_cpp17_is_one_sentence(checkout: Path) -> None:
    (checkout / "bin/g++").unlink()
    (checkout / "bin/g++").write_text("#!/bin/sh\nexit 1\n")
    (checkout / "bin/g++").chmod(0o755)
    assert_refused(setup(checkout), checkout, "g++ does not accept C++17")


@pytest.mark.parametrize(
    ("module", "sentence"),
    [("sitecustomize", "Python.h is missing"), ("ensurepip", "Python's venv module is missing")],
)
def test_a_missing_part_of_python_is_one_sentence(checkout: Path, module: str, sentence: str) -> None:
    broken = {
        "sitecustomize": (
            "import sysconfig\nreal = sysconfig.get_paths\n"
            "sysconfig.get_paths = lambda *args: {**real(*args), 'include': '/nowhere'}\n"
        ),
        "ensurepip": "raise ImportError('not packaged')\n",
    }
    (checkout / "fake").mkdir()
    (checkout / "fake" / f"{module}.py").write_text(broken[module])
    wrapper = checkout / "bin" / "python-with-a-gap"
    wrapper.write_text(f'#!/bin/sh\nPYTHONPATH={checkout / "fake"} exec {os.path.realpath(sys.executable)} "$@"\n')
    wrapper.chmod(0o755)
    assert_refused(setup(checkout, PYTHON="python-with-a-gap"), checkout, sentence)
