"""Builds the two C++ extensions once per user and loads them.

`load(name)` returns the module and builds it first where it must. A build is keyed by the digest of its sources, the
torch version and the Python version, so that a changed source or an upgrade never meets an old binary. Parallel
processes build once: the others wait on a file lock. The build runs in a child process, with torch's own ninja rules.

Cache folder: `$SPYRE_SIM_CACHE_DIR`, else `$XDG_CACHE_HOME/spyre-simulator`, else `~/.cache/spyre-simulator`.
`python -m sim_backend.device.build` builds both and prints where they are.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from sim_backend.errors import BuildError

_ROOT = Path(__file__).resolve().parent.parent
# Without -fopenmp at::parallel_for runs on one thread; its runtime is the one that torch has loaded.
_FLAGS = ("-O3", "-g0", "-DAT_PER_OPERATOR_HEADERS", "-fopenmp", "-ffp-contract=off")
_LINK_FLAGS = ("-fopenmp",)
_SHARED = ("numerics/ext/spans.cpp", "numerics/ext/tensors.cpp")
_HEADERS = ("numerics/ext/clones.h", "numerics/ext/dl16.h", "numerics/ext/spans.h", "numerics/ext/tensors.h")
_DEVICE = (
    "allocator",
    "callbacks",
    "clock",
    "compute",
    "copy",
    "formats",
    "guard",
    "hooks",
    "kernels",
    "module",
    "policy",
)


class _Extension(NamedTuple):
    sources: tuple[str, ...]
    headers: tuple[str, ...]


EXTENSIONS = {
    "dl16_ext": _Extension(
        (*_SHARED, "numerics/ext/pairs.cpp", "numerics/ext/rows.cpp", "numerics/ext/module.cpp"),
        (*_HEADERS, *(f"numerics/ext/{name}.h" for name in ("chunks", "pairs", "rows"))),
    ),
    "spyre_ext": _Extension(
        (*_SHARED, *(f"device/ext/{name}.cpp" for name in _DEVICE)),
        (*_HEADERS, "device/ext/spyre.h", "device/ext/callbacks.h"),
    ),
}


@cache
def load(name: str) -> ModuleType:
    """The extension `name` ("dl16_ext" or "spyre_ext"), built first if needed. Raises BuildError."""
    library = library_path(name)
    if not library.is_file():
        _build_in_child(name)
    import torch  # noqa: F401  (the library links against torch's, so these must be loaded first)

    spec = importlib.util.spec_from_file_location(name, library)
    if spec is None or spec.loader is None:
        raise BuildError(f"the simulator's library {library} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def library_path(name: str) -> Path:
    """Where the built library of `name` is, or will be."""
    return cache_dir() / _key(name) / f"{name}.so"


def cache_dir() -> Path:
    """The folder that holds the built libraries."""
    if own := os.environ.get("SPYRE_SIM_CACHE_DIR"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "spyre-simulator"


def _key(name: str) -> str:
    digest = hashlib.sha256()
    extension = EXTENSIONS[name]
    for relative in sorted(extension.sources + extension.headers):
        digest.update(relative.encode() + b"\0" + (_ROOT / relative).read_bytes())
    for part in (*_FLAGS, *_LINK_FLAGS, _torch_version(), sys.version, platform.machine()):
        digest.update(part.encode() + b"\0")
    return f"{name}-{digest.hexdigest()[:16]}"


def _torch_version() -> str:
    if torch := sys.modules.get("torch"):
        return str(torch.__version__)
    from importlib.metadata import version

    return version("torch")


def _build_in_child(name: str) -> None:
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "SPYRE_SIM_CACHE_DIR": str(cache_dir())}
    command = [sys.executable, "-m", "sim_backend.device.build", name]
    done = subprocess.run(command, env=env, cwd=_ROOT.parent, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not library_path(name).is_file():
        lines = done.stderr.strip().splitlines() or ["no output"]
        raise BuildError(lines[-1].removeprefix("BuildError: "))


def build(name: str) -> Path:
    """Build `name` unless it is there already; returns the path of the library. Raises BuildError."""
    library = library_path(name)
    with _locked(name):
        if not library.is_file():
            check_toolchain()
            _compile(name, library)
    return library


@contextmanager
def _locked(name: str) -> Iterator[None]:
    folder = cache_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / f"{name}.lock").open("a")
    except OSError as error:
        raise BuildError(f"the simulator cannot write its cache folder {folder}: {error.strerror}") from error
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def check_toolchain() -> None:
    """Raises BuildError, one sentence, if the C++ compiler, Python's headers or ninja are missing."""
    compiler = os.environ.get("CXX", "c++")
    if shutil.which(compiler) is None:
        raise BuildError(f"the simulator needs a C++ compiler, and {compiler!r} is not there: install g++")
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if not header.is_file():
        raise BuildError(f"the simulator needs Python's headers, and {header} is not there: install python3-dev")
    if shutil.which("ninja", path=_search_path()) is None:
        raise BuildError("the simulator needs ninja, and it is not there: pip install ninja")


def _search_path() -> str:
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def _compile(name: str, library: Path) -> None:
    from torch.utils import cpp_extension

    os.environ["PATH"] = _search_path()
    work = library.parent.with_name(f"{library.parent.name}.building")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    sources = [str(_ROOT / source) for source in EXTENSIONS[name].sources]
    try:
        cpp_extension.load(
            name,
            sources,
            extra_cflags=list(_FLAGS),
            extra_ldflags=list(_LINK_FLAGS),
            build_directory=str(work),
            is_python_module=False,
        )
    except (RuntimeError, OSError) as error:
        raise BuildError(f"building the simulator's {name} failed in {work}: {_first_error(str(error))}") from error
    library.parent.mkdir(exist_ok=True)
    (work / library.name).replace(library)
    shutil.rmtree(work)


def _first_error(text: str) -> str:
    lines = text.splitlines()
    return next((line.strip() for line in lines if "error:" in line), lines[0] if lines else "unknown error")[:400]


def main(names: list[str]) -> int:
    """Build the named extensions (default: all). Returns the exit code; the last line of stderr says why not."""
    try:
        for name in names or EXTENSIONS:
            sys.stdout.write(f"{build(name)}\n")
    except BuildError as error:
        sys.stderr.write(f"BuildError: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
