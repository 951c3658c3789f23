"""Which installed packages the sandbox shows: the named distributions and what they require, nothing else.

The folder of all packages is never shown whole: an installation may hold the factory itself, and with it the grader.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .errors import SandboxUnavailable

NEVER = frozenset(
    {"agents", "api", "benchmarks", "migrations", "pipeline", "sim_backend", "tests", "spyre_adapter_factory"}
)
"""Top-level names that are never shown, whatever distribution claims to own them."""


@lru_cache(maxsize=8)
def package_paths(names: tuple[str, ...]) -> tuple[Path, ...]:
    """Top-level files and folders of the distributions `names` and of all they require, sorted.

    Raises SandboxUnavailable if one of `names` is not installed.
    """
    found: dict[str, metadata.Distribution] = {}
    _collect(names, found, required=True)
    paths = {path for dist in found.values() for path in _top_level(dist)}
    return tuple(sorted(path for path in paths if path.name.split(".")[0] not in NEVER))


def _collect(names: Iterable[str], found: dict[str, metadata.Distribution], *, required: bool) -> None:
    for name in map(canonicalize_name, names):
        if name in found:
            continue
        dist = _distribution(name, required=required)
        if dist is not None:
            found[name] = dist
            _collect(_requirements(dist), found, required=False)


def _distribution(name: str, *, required: bool) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError as error:
        if required:
            raise SandboxUnavailable(f"package {name!r} is not installed", "run `make setup`") from error
        return None


def _requirements(dist: metadata.Distribution) -> list[str]:
    """Names of what `dist` requires here, extras left out."""
    requirements = map(Requirement, dist.requires or ())
    return [r.name for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})]


def _top_level(dist: metadata.Distribution) -> set[Path]:
    """The first component of every file of the distribution's record that lies in its packages folder."""
    base = Path(str(dist.locate_file("")))
    record = dist.read_text("RECORD") or ""
    first = {line.partition(",")[0].strip('"').partition("/")[0] for line in record.splitlines()}
    return {base / name for name in first - {"", "..", "__pycache__"} if (base / name).exists()}
