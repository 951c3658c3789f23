"""What a compiled artefact depends on besides its graph: the profile and the simulator's own sources."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from sim_backend.compiler.division import cores_in_use
from sim_backend.profiles import active

_SOURCES = (".py", ".cpp", ".h")


@cache
def sources_digest() -> str:
    """sha256 over the simulator's source files, so that an edit never meets an artefact of older code."""
    digest = hashlib.sha256()
    for path in sorted(_files(resources.files("sim_backend")), key=lambda f: str(f)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def compile_identity() -> str:
    """The part of every compile-cache key that is ours."""
    return f"spyre-{active().digest}-{cores_in_use(active().cores)}-{sources_digest()}"


def _files(folder: Traversable) -> list[Traversable]:
    found: list[Traversable] = []
    for entry in folder.iterdir():
        if entry.is_dir() and entry.name != "__pycache__":
            found.extend(_files(entry))
        elif entry.name.endswith(_SOURCES):
            found.append(entry)
    return found
