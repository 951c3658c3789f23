"""Answers of a benchmark that takes long, kept as they come: a run that was cut off goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SUFFIXES = (".py", ".yaml", ".j2", ".cpp", ".h")


def digest_of(folders: Sequence[str]) -> str:
    """Of every source in the folders of this tree."""
    whole = hashlib.sha256()
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES:
                whole.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return whole.hexdigest()[:16]


def cache_file(name: str) -> Path:
    """Where a benchmark keeps its answers unless told otherwise."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "spyre-factory" / f"{name}.jsonl"


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
