"""Content-addressed artefacts: files under the data directory, or rows of a database that several hosts share.

A file is written under a temporary name, synced and renamed, and only then the row is made. Content in the database is
stored in the transaction of the row.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from pipeline.database.errors import DataDirUnusable
from pipeline.database.insert import insert_or_return
from pipeline.database.models import Artefact, ArtefactContent
from pipeline.database.unit_of_work import database_now, looking
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
    if get_settings().artefact_store == "database":
        insert_or_return(session, ArtefactContent, {"digest": digest}, {"content": content})
    elif not artefact_path(digest).exists():
        _write_durably(artefact_path(digest), content)
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
    """The content with this digest. Raises `NotFound` if it is not stored, `DataDirUnusable` if it was changed.

    Both places are looked at, so that what was stored before the setting changed is still found.
    """
    path = artefact_path(digest)
    content = path.read_bytes() if path.exists() else _stored_content(digest)
    if content is None:
        raise NotFound(f"The artefact {digest!r} is not stored.")
    if hashlib.sha256(content).hexdigest() != digest:
        raise DataDirUnusable(f"The artefact {path} no longer has the content its name says: restore a backup.")
    return content


def _stored_content(digest: str) -> bytes | None:
    with looking() as session:
        return session.scalar(select(ArtefactContent.content).where(ArtefactContent.digest == digest))


def drop_content(session: Session, digests: list[str]) -> list[Path]:
    """Forget the rows of artefacts; returns their files, to be removed once that is committed."""
    session.execute(delete(Artefact).where(Artefact.digest.in_(digests)))
    session.execute(delete(ArtefactContent).where(ArtefactContent.digest.in_(digests)))
    return [artefact_path(digest) for digest in digests]


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
