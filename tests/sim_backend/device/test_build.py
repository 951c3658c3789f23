"""The C++ part is built once per source, torch and Python; what is missing is one clear sentence."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sim_backend.device import build
from sim_backend.errors import BuildError


@pytest.fixture
def _empty_cache(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPYRE_SIM_CACHE_DIR", str(tmp_path / "cache"))


def test_the_key_follows_sources_torch_and_python(monkeypatch) -> None:
    before = build.library_path("dl16_ext")
    assert build.library_path("dl16_ext") == before
    monkeypatch.setattr(build, "_torch_version", lambda: "9.9.9")
    other_torch = build.library_path("dl16_ext")
    monkeypatch.setattr(build, "_FLAGS", ("-O0",))
    assert len({before, other_torch, build.library_path("dl16_ext"), build.library_path("spyre_ext")}) == 4


def test_every_source_and_header_is_part_of_the_key() -> None:
    root = Path(build.__file__).resolve().parent.parent
    listed = {f for e in build.EXTENSIONS.values() for f in e.sources + e.headers}
    on_disk = {str(f.relative_to(root)) for p in ("device", "numerics") for f in (root / p / "ext").glob("*.[ch]*")}
    assert listed == on_disk


@pytest.mark.usefixtures("_empty_cache")
def test_a_missing_compiler_is_one_sentence(monkeypatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(BuildError, match=r"needs a C\+\+ compiler, and 'no-such-compiler' is not there: install g\+\+"):
        build.build("dl16_ext")


@pytest.mark.usefixtures("_empty_cache")
def test_missing_headers_are_one_sentence(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    with pytest.raises(BuildError, match=r"needs Python's headers.*install python3-dev"):
        build.check_toolchain()


def test_a_cache_folder_that_cannot_be_written_is_named(monkeypatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SPYRE_SIM_CACHE_DIR", str(tmp_path / "file" / "below"))
    with pytest.raises(BuildError, match="cannot write its cache folder"):
        build.build("dl16_ext")


def test_the_child_that_builds_reports_the_sentence_to_its_caller(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPYRE_SIM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(BuildError, match=r"^the simulator needs a C\+\+ compiler"):
        build._build_in_child("dl16_ext")


@pytest.mark.usefixtures("_empty_cache")
def test_parallel_builders_compile_once(monkeypatch) -> None:
    compiled: list[str] = []

    def compile_slowly(name: str, library: Path) -> None:
        compiled.append(name)
        threading.Event().wait(0.05)
        library.parent.mkdir(parents=True)
        library.write_bytes(b"library")

    monkeypatch.setattr(build, "_compile", compile_slowly)
    threads = [threading.Thread(target=build.build, args=("dl16_ext",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert compiled == ["dl16_ext"]


@pytest.mark.usefixtures("_empty_cache")
def test_a_failed_compilation_leaves_no_library(monkeypatch) -> None:
    from torch.utils import cpp_extension

    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("Error building extension\nx.cpp:3:1: error: expected ';'\nmore")

    monkeypatch.setattr(cpp_extension, "load", fail)
    monkeypatch.setenv("PATH", os.environ["PATH"])  # put back: a build extends that of its own process
    with pytest.raises(BuildError, match=r"x.cpp:3:1: error: expected ';'"):
        build.build("dl16_ext")
    assert not build.library_path("dl16_ext").exists()


def test_the_command_prints_the_library_of_each_extension(capsys) -> None:
    assert build.main([]) == 0
    assert capsys.readouterr().out.split() == [str(build.library_path(name)) for name in build.EXTENSIONS]


_COUNT_THREADS = """
import os, torch
from sim_backend.numerics import round_dl16_
values, threads = torch.empty(1 << 20), len(os.listdir("/proc/self/task"))
round_dl16_(values)
print(len(os.listdir("/proc/self/task")) - threads)
"""


def test_loops_run_on_all_threads() -> None:
    env = {**os.environ, "OMP_NUM_THREADS": "2", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = subprocess.run([sys.executable, "-c", _COUNT_THREADS], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1"]
