"""Answers of a benchmark that takes long, kept as they come: a run that was cut off goes on where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

ROOT = Path(__file__).parent.parent
SUFFIXES = (".py", ".yaml", ".j2", ".cpp", ".h")


def digest_of(sources: Iterable[str]) -> str:
    """Of every source that these files, folders or patterns of them in this tree hold."""
    whole = hashlib.sha256()
    for top in (found for pattern in sources for found in sorted(ROOT.glob(pattern))):
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.suffix in SUFFIXES:
                whole.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return whole.hexdigest()[:16]


def cache_folder() -> Path:
    """Where benchmarks keep their answers unless told otherwise."""
    return user_cache_path("spyre-factory")


class Kept:
    """Answers by name, one JSON line each. Those of another `version` (the sources they depend on) do not count."""

    def __init__(self, path: Path, version: str) -> None:
        self.path, self.version = path, version
        self._answers: dict[str, Any] = {}
        for line in path.read_text().splitlines() if path.exists() else ():
            entry = json.loads(line)
            if entry["version"] == version:
                self._answers[entry["name"]] = entry["answer"]

    def known(self, name: str) -> Any:
        """The kept answer; None if there is none."""
        return self._answers.get(name)

    def answer(self, name: str, make: Callable[[], Any]) -> Any:
        """The kept answer, or one that is made and kept now. It must be JSON data."""
        if name not in self._answers:
            found = make()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps({"version": self.version, "name": name, "answer": found}) + "\n")
            self._answers[name] = found
        return self._answers[name]
