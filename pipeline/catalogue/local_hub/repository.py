"""The models a local Hub serves: files on disk or in memory, each tree with the commit and digests the Hub would give.

On disk a model is a folder `ORG/NAME` with its files. `.hub/meta.json` in it may set `downloads`, `likes`,
`pipeline_tag`, `library_name`, `gated` and `tags`; `.hub/refs/pr/N/` holds the files that pull request N adds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from pipeline.catalogue.entry import CatalogueEntry
from pipeline.catalogue.hub import CONVERSION_BOT
from pipeline.inspection.safetensors_header import DTYPES, HeaderError, read_header

META = ".hub"
LFS_BYTES = 10_000_000
LFS_SUFFIXES = (".safetensors", ".bin", ".gguf", ".onnx", ".h5", ".msgpack", ".pt")
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Blob:
    """One file at one commit: its place, size in bytes, git blob sha1, and sha256 if the Hub keeps it in LFS."""

    content: Path | bytes
    size: int
    sha1: str
    sha256: str | None

    @property
    def etag(self) -> str:
        """What the Hub sends as ETag: sha256 of LFS files, else git's sha1."""
        return self.sha256 or self.sha1


@dataclass
class HubModel:
    """A model and the trees of its refs (`main`, `refs/pr/1`, ...), file name to path or bytes."""

    model_id: str
    refs: dict[str, dict[str, Path | bytes]]
    downloads: int = 0
    likes: int = 0
    pipeline_tag: str = "sentence-similarity"
    library_name: str | None = "sentence-transformers"
    gated: str | bool = False
    tags: tuple[str, ...] = ()
    parameters: int | None = None
    author_of_refs: str = CONVERSION_BOT
    meta: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def trees(self) -> dict[str, dict[str, Blob]]:
        """Blobs of each ref by file name."""
        return {
            ref: {name: _blob(name, content) for name, content in sorted(files.items())}
            for ref, files in self.refs.items()
        }

    def commit(self, ref: str) -> str:
        """The 40-hex commit of a ref: a digest of its names and blobs."""
        listing = "".join(f"{name}\0{blob.sha1}\n" for name, blob in self.trees[ref].items())
        return hashlib.sha1(f"{self.model_id}\n{listing}".encode(), usedforsecurity=False).hexdigest()

    def resolve(self, revision: str) -> str | None:
        """The ref a revision (name or commit) stands for, or None."""
        if revision in self.refs:
            return revision
        return next((ref for ref in self.refs if self.commit(ref) == revision), None)

    def pushed(self, files: Mapping[str, Path | bytes]) -> HubModel:
        """This model after a push of `files` to main: the commit before can still be asked for, as on the Hub."""
        before = self.refs["main"]
        return replace(self, refs={**self.refs, self.commit("main"): before, "main": {**before, **files}})

    def config(self) -> dict[str, Any]:
        """The parsed `config.json` of main; empty if there is none or it is broken."""
        content = self.refs["main"].get("config.json")
        if content is None:
            return {}
        try:
            parsed = json.loads(content if isinstance(content, bytes) else content.read_bytes())
        except (OSError, ValueError):
            return {}
        return parsed if isinstance(parsed, dict) else {}

    def tensor_counts(self) -> dict[str, int]:
        """Numbers per dtype of `model.safetensors` as the Hub reports them; empty if it has none."""
        content = self.refs["main"].get("model.safetensors")
        if isinstance(content, Path):
            try:
                elements = read_header(content).elements
            except (HeaderError, OSError):
                return {}
            return {dtype: n for dtype, n in elements.items() if dtype in DTYPES}
        return {"F32": self.parameters} if self.parameters else {}


def load_root(root: Path) -> list[HubModel]:
    """Every model folder one or two levels below `root`."""
    folders = [p for pattern in ("*", "*/*") for p in sorted(root.glob(pattern)) if p.is_dir()]
    return [_from_folder(p, p.relative_to(root).as_posix()) for p in folders if _is_model(p)]


def model_from_entry(entry: CatalogueEntry, extra: Mapping[str, Path | bytes] | None = None) -> HubModel:
    """A model of a catalogue row: its configuration and pooling as files, without weights unless `extra` has them."""
    from pipeline.catalogue.folder import entry_files

    files: dict[str, Path | bytes] = {**entry_files(entry), **(extra or {})}
    return HubModel(
        entry.model_id,
        {"main": files},
        downloads=entry.downloads,
        likes=entry.likes,
        pipeline_tag=entry.pipeline_tag or "sentence-similarity",
        library_name=entry.library,
        gated="manual" if entry.gated else False,
        parameters=entry.parameters,
    )


def _is_model(folder: Path) -> bool:
    return (folder / "config.json").is_file() or (folder / META).is_dir()


def _from_folder(folder: Path, model_id: str) -> HubModel:
    main = _files(folder)
    meta_path = folder / META / "meta.json"
    meta = json.loads(meta_path.read_text(encoding="utf-8")) if meta_path.is_file() else {}
    pulls = sorted((folder / META / "refs" / "pr").glob("*"))
    refs = {"main": main} | {f"refs/pr/{p.name}": {**main, **_files(p)} for p in pulls}
    known = {k: meta[k] for k in ("downloads", "likes", "pipeline_tag", "library_name", "gated") if k in meta}
    return HubModel(model_id, refs, tags=tuple(meta.get("tags", ())), meta=meta, **known)


def _files(folder: Path) -> dict[str, Path | bytes]:
    found = {p.relative_to(folder).as_posix(): p for p in sorted(folder.rglob("*")) if p.is_file()}
    return {name: path for name, path in found.items() if not name.startswith(META + "/")}


def _blob(name: str, content: Path | bytes) -> Blob:
    if isinstance(content, bytes):
        size, sha1, sha256 = len(content), _git_sha1(content), hashlib.sha256(content).hexdigest()
    else:
        stat = content.stat()
        size, sha1, sha256 = _digests(content, stat.st_size, stat.st_mtime_ns)
    large = size >= LFS_BYTES or name.endswith(LFS_SUFFIXES)
    return Blob(content, size, sha1, sha256 if large else None)


def _git_sha1(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


@lru_cache(maxsize=4096)
def _digests(path: Path, size: int, _changed_ns: int) -> tuple[int, str, str]:
    sha1, sha256 = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False), hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            sha1.update(chunk)
            sha256.update(chunk)
    return size, sha1.hexdigest(), sha256.hexdigest()
