"""Where an inspection reads from: a local folder, or the file list of a Hub entry. Small files only, within limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pipeline.errors import EnvironmentProblem
from pipeline.inspection.files import MAX_SMALL_BYTES, is_safe_name

MAX_FILES = 20_000
"""A folder with more files than this is not a checkpoint."""


class Source(Protocol):
    """What `inspect_checkpoint` reads. `read_bytes` returns None for a file that is not there."""

    @property
    def name(self) -> str: ...
    @property
    def revision(self) -> str | None: ...
    @property
    def gated(self) -> bool: ...
    @property
    def folder(self) -> Path | None: ...
    def names(self) -> list[str] | None: ...
    def read_bytes(self, name: str) -> bytes | None: ...


class FileTooLargeError(ValueError):
    """A file that should be small is not; the message is one clause."""


@dataclass(frozen=True)
class LocalFolder:
    """A checkpoint on disk. Links that leave the folder are read like files: a Hub cache is made of them."""

    folder: Path
    revision: str | None = None
    gated: bool = False

    @property
    def name(self) -> str:
        """The folder, as given."""
        return str(self.folder)

    def names(self) -> list[str]:
        """Relative names of all files. Raises EnvironmentProblem if the folder cannot be listed."""
        try:
            return sorted(_walk(self.folder))
        except OSError as error:
            raise EnvironmentProblem(f"{self.name!r} cannot be listed: {error.strerror or error}") from error

    def read_bytes(self, name: str) -> bytes | None:
        """The content of a small file, None if it is not there."""
        path = self.folder / name
        try:
            if not path.is_file():
                return None
            if path.stat().st_size > MAX_SMALL_BYTES:
                raise FileTooLargeError(f"its {name} is larger than {MAX_SMALL_BYTES:,} bytes")
            return path.read_bytes()
        except OSError as error:
            raise EnvironmentProblem(f"{str(path)!r} cannot be read: {error.strerror or error}") from error


@dataclass(frozen=True)
class ListedFiles:
    """A checkpoint known by a configuration and, where the source has it, a file list: a catalogue row or a Hub entry.

    `read` fetches one small file by name (None where it is absent); without it only `config` can be read.
    """

    name: str
    config: Mapping[str, Any] | None = None
    files: tuple[str, ...] | None = None
    revision: str | None = None
    gated: bool = False
    read: Callable[[str], bytes | None] | None = field(default=None, repr=False)
    folder: Path | None = None

    def names(self) -> list[str] | None:
        """The listed names, None if the source lists no files."""
        return None if self.files is None else sorted(self.files)

    def read_bytes(self, name: str) -> bytes | None:
        """The file's content; `config.json` comes from the row where the row has it."""
        if name == "config.json" and self.config is not None:
            return json.dumps(self.config).encode()
        if self.read is None or (self.files is not None and name not in self.files):
            return None
        data = self.read(name)
        if data is not None and len(data) > MAX_SMALL_BYTES:
            raise FileTooLargeError(f"its {name} is larger than {MAX_SMALL_BYTES:,} bytes")
        return data


def read_json(source: Source, name: str) -> Any:
    """The parsed file, None if it is absent. Raises ValueError with one clause if it is not JSON of a sane size."""
    if not is_safe_name(name):
        raise ValueError(f"it names a file outside its folder: {name!r:.80}")
    data = source.read_bytes(name)
    if data is None:
        return None
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its {name} is not valid JSON") from error


def _walk(folder: Path) -> list[str]:
    found: list[str] = []
    for path in folder.rglob("*"):
        if path.is_file():
            found.append(path.relative_to(folder).as_posix())
        if len(found) > MAX_FILES:
            raise OSError(f"more than {MAX_FILES:,} files, so it is not a checkpoint")
    return found
