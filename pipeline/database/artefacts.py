"""Content-addressed files under the data directory: temporary file, fsync, rename, and only then the row."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from pipeline.database.errors import DataDirUnusable
from pipeline.database.insert import insert_or_return
from pipeline.database.models import Artefact
from pipeline.database.unit_of_work import database_now
from pipeline.errors import NotFound
from pipeline.settings import get_settings


def artefact_path(digest: str) -> Path:
    """Where the content with this sha256 lives; the file may not exist."""
    if len(digest) != 64 or not all(c in "0123456789abcdef" for c in digest):
        raise NotFound(f"{digest!r} is not the digest of an artefact.")
    return get_settings().data_dir / "artefacts" / digest[:2] / digest[2:]


def store_bytes(session: Session, content: bytes, kind: str, media_type: str = "application/octet-stream") -> str:
    """Store `content`, then its row; returns the sha256. Storing the same content twice is one file and one row."""
    digest = hashlib.sha256(content).hexdigest()
    path = artefact_path(digest)
    if not path.exists():
        _write_durably(path, content)
    values = {
        "kind": kind,
        "media_type": media_type,
        "size_bytes": len(content),
        "created_at": database_now(session),
    }
    insert_or_return(session, Artefact, {"digest": digest}, values)
    return digest


def store_json(session: Session, value: Any, kind: str) -> str:
    """Store `value` as indented JSON with sorted keys; returns the sha256 of that text."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
    return store_bytes(session, text.encode(), kind, "application/json")


def read_artefact(digest: str) -> bytes:
    """The content with this digest. Raises `NotFound` if it is not stored, `DataDirUnusable` if it was changed."""
    path = artefact_path(digest)
    if not path.exists():
        raise NotFound(f"The artefact {digest!r} is not stored.")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise DataDirUnusable(f"The file {path} no longer has the content its name says: restore it from a backup.")
    return content


def _write_durably(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".part-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        _fsync_directory(path.parent)
    except OSError as error:
        raise DataDirUnusable(f"Cannot store an artefact under {path.parent}: {error.strerror}.") from error


def _fsync_directory(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
