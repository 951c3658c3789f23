"""The read-only files a sandbox sees: interpreter, system libraries, named packages, a few files made up for it.

Paths inside are the same on every machine: `/opt/interpreter`, `/opt/packages`, `/opt/tools`, `/work` (the only
writable place). The mount table inside still names the sources, as names only: there is nothing to open behind them.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from .packages import package_paths

WORK = "/work"
INTERPRETER = "/opt/interpreter"
PYTHON = f"{INTERPRETER}/bin/python3"
PACKAGES = "/opt/packages"
TOOLS = "/opt/tools"
INIT = "/opt/init.py"

SYSTEM = ("/usr/lib", "/usr/lib64", "/usr/lib32", "/etc/ld.so.cache", "/sys/devices/system/cpu")
"""System files shown under their own path where they exist: shared libraries and the processor's description."""

PACKAGE_FOLDERS = ("site-packages", "dist-packages")
SYSTEM_PACKAGES = ("/usr/lib/python3/dist-packages",)

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

MADE_UP = {
    "/etc/passwd": b"sandbox:x:1000:1000::/work/home:/nonexistent\n",
    "/etc/group": b"sandbox:x:1000:\n",
    "/etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files\n",
}
"""Files of the sandbox's own: the machine's users and hosts stay unknown."""

SCRATCH = f"{WORK}/tmp"  # noqa: S108 - inside the sandbox

ENVIRONMENT = {
    "PATH": f"{INTERPRETER}/bin",
    "LD_LIBRARY_PATH": f"{INTERPRETER}/lib",
    "PYTHONPATH": f"{PACKAGES}:{TOOLS}",
    "PYTHONHASHSEED": "0",
    "HOME": f"{WORK}/home",
    "USER": "sandbox",
    "TMPDIR": SCRATCH,
    "XDG_CACHE_HOME": SCRATCH,
    "TORCHINDUCTOR_CACHE_DIR": SCRATCH,
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
    "HF_HUB_OFFLINE": "1",
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
}
"""The whole environment of sandboxed code."""


class Shown(NamedTuple):
    """A host file or folder and the path under which the sandbox sees it, read-only."""

    source: Path
    dest: str


def readonly_view(packages: tuple[str, ...], tools: dict[str, Path]) -> list[Shown]:
    """Everything of the host that is shown. `tools` maps names under `/opt/tools` to a file or folder each.

    Raises ValueError for a tool that is, or holds, the home folder or the factory itself.
    """
    system = [Shown(Path(path), path) for path in SYSTEM if Path(path).exists()]
    shown = [Shown(path, f"{PACKAGES}/{path.name}") for path in package_paths(packages)] if packages else []
    helpers = [Shown(_harmless(path.resolve()), f"{TOOLS}/{name}") for name, path in tools.items()]
    return [*system, *_interpreter(), *shown, *helpers]


def _harmless(path: Path) -> Path:
    """`path` unless showing it would show home or repository. Raises ValueError."""
    for kept in (Path.home(), Path(__file__).resolve().parents[2]):
        if kept.is_relative_to(path):
            raise ValueError(f"{path} would be shown in the sandbox with {kept} in it")
    return path


@lru_cache(maxsize=1)
def _interpreter() -> tuple[Shown, ...]:
    """The interpreter that runs this process, without its scripts: executable, standard library, libpython."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    executable = Path(os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable))
    stdlib = Path(os.path.realpath(os.__file__)).parent
    return (
        Shown(executable, PYTHON),
        Shown(stdlib, f"{INTERPRETER}/{sys.platlibdir}/{version}"),
        *(Shown(path, f"{INTERPRETER}/lib/{path.name}") for path in _loaded_libpython()),
    )


def _loaded_libpython() -> list[Path]:
    """The shared libpython this process runs from, if it has one."""
    mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libpython" in line}
    return sorted(path for path in map(Path, mapped) if path.is_file())


def hidden_folders() -> list[str]:
    """Package folders inside what is shown, covered by empty ones: they may hold the factory itself."""
    stdlib = next(item for item in _interpreter() if item.source.is_dir())
    inside = [f"{stdlib.dest}/{name}" for name in PACKAGE_FOLDERS if (stdlib.source / name).is_dir()]
    return [*inside, *(path for path in SYSTEM_PACKAGES if Path(path).is_dir())]


def usr_merged(path: str) -> str | None:
    """Target of a top-level library link such as /lib -> usr/lib, None where it is a folder of its own or absent."""
    return str(Path(path).readlink()) if Path(path).is_symlink() else None
