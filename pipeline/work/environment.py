"""The environment of a verdict: what, if it changes, makes a verdict stale.

Read without importing torch or the simulator, so that the API and Celery's parents can name it.
"""

from __future__ import annotations

import hashlib
import importlib.util
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from agents.types import canonical
from pipeline.verification.policy import current_policy

DISTRIBUTIONS = ("torch", "transformers", "safetensors")
SOURCES = {
    "simulator": "sim_backend",
    "patches": "adapters/patches",
    "replay": "adapters/replay",
    "gate": "pipeline/verification",
    "capture": "agents/capture",
    "execution": "pipeline/execution",
}
"""What decides a verdict besides the distributions: the digest of these sources is their version."""
NO_PART_OF_A_VERDICT = {
    "gate": ("selftest", "mutants"),
    "execution": (
        "diagnose.py",
        "diagnose_run.py",
        "diagnosis_report.py",
        "predict.py",
        "draft.py",
        "reproduce.py",
        "scripts.py",
        "check.py",
    ),
}
"""Folders and files of a source that measure the gate, diagnose, draft or forecast, and give no verdict: a new entry of
the corpus or another sentence of a diagnosis leaves every verdict as it is."""
SUFFIXES = {".py", ".cpp", ".h", ".yaml", ".yml", ".json"}


@lru_cache(maxsize=16)
def environment_of(profile: str) -> dict[str, Any]:
    """Versions that decide a verdict on `profile`; the key `digest` covers the others."""
    versions: dict[str, Any] = {name: _version(name) for name in DISTRIBUTIONS}
    versions["profile"] = profile
    versions |= {name: source_digest(path, NO_PART_OF_A_VERDICT.get(name, ())) for name, path in SOURCES.items()}
    versions["policy"] = current_policy().digest
    return {**versions, "digest": hashlib.sha256(canonical(versions)).hexdigest()}


def environment_digest(profile: str) -> str:
    """The digest of `environment_of(profile)`."""
    return str(environment_of(profile)["digest"])


def shipped_profiles() -> tuple[str, ...]:
    """The names of the device profiles that ship with the simulator, by their files."""
    spec = importlib.util.find_spec("sim_backend")
    if spec is None or spec.origin is None:
        return ()
    folder = Path(spec.origin).parent / "profiles"
    return tuple(sorted(path.stem for path in folder.rglob("profile-*.yaml")))


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def source_digest(path: str, without: tuple[str, ...] = ()) -> str:
    """A short digest of the sources below a package's folder, what `without` names in it left out; or "absent"."""
    top, _, rest = path.partition("/")
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None:
        return "absent"
    root = Path(spec.origin).parent / rest
    digest = hashlib.sha256()
    for file in sorted(root.rglob("*")):
        inside = file.relative_to(root)
        if file.suffix in SUFFIXES and "__pycache__" not in file.parts and inside.parts[0] not in without:
            digest.update(f"{inside}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]
