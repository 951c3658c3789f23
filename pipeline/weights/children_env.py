"""The cleared environment of model children: offline, without tokens, with a home of their own.

A child that runs a model gets only what is listed here. What is not listed (tokens, proxies, `HF_ENDPOINT`, settings of
the service, user site packages) does not reach it, whatever the parent's environment holds.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from pipeline.errors import EnvironmentProblem

OFFLINE: dict[str, str] = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "DO_NOT_TRACK": "1",
    "no_proxy": "*",
}

FIXED: dict[str, str] = {
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",
    "PYTHONNOUSERSITE": "1",
    "PYTHONUNBUFFERED": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_WAIT_POLICY": "passive",
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
}
"""Autoload is off: a child that needs the device starts it itself, a reference child must not have it. Threads that
wait sleep: a stage and its child share the cores, and one that spins takes them from the other."""

SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
"""A compiler is found here by Inductor; nothing of the user's."""

SECRET = re.compile(r"TOKEN|SECRET|PASSW|API_?KEY|CREDENTIAL|DATABASE_URL|BROKER_URL", re.IGNORECASE)
"""Names that are refused in `extra`."""


def children_env(home: Path, *, threads: int = 2, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The whole environment of a model child whose home and temporary folder is `home`; `threads` bounds OpenMP.

    `extra` adds single variables (a profile name, a compile cache). Raises EnvironmentProblem for one that by its name
    would carry a secret or undo the isolation.
    """
    refused = sorted(
        name for name in extra or {} if SECRET.search(name) or name in OFFLINE or name in {"HOME", "TMPDIR"}
    )
    if refused:
        raise EnvironmentProblem(f"{refused[0]!r} may not reach a model child; remove it from `extra`")
    return {**_places(home), **OFFLINE, **FIXED, **_threads(threads), **(extra or {})}


def _places(home: Path) -> dict[str, str]:
    path = ":".join(dict.fromkeys((str(Path(sys.executable).parent), *SYSTEM_PATH)))
    folder = str(home)
    return {
        "PATH": path,
        "HOME": folder,
        "TMPDIR": folder,
        "XDG_CACHE_HOME": str(home / ".cache"),
        "HF_HOME": str(home / ".hf"),
        "SPYRE_SIM_CACHE_DIR": _simulator_build(),
    } | _our_code()


def _our_code() -> dict[str, str]:
    """A source tree's children import from that tree, as their parent does: another checkout may be the installed one,
    and verdicts would carry digests of code that did not make them. An installed package needs no path."""
    root = Path(__file__).resolve().parents[2]
    return {"PYTHONPATH": str(root)} if (root / "pyproject.toml").is_file() else {}


def _simulator_build() -> str:
    """Where this installation keeps the built device extension: children share it, they must not build their own."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return os.environ.get("SPYRE_SIM_CACHE_DIR") or str(cache / "spyre-simulator")


def _threads(count: int) -> dict[str, str]:
    return dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(count))
