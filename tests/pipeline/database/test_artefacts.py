"""Artefacts are named by their content, whole or absent, and never trusted after a change."""

from __future__ import annotations

import errno
import hashlib
import os

import pytest
from sqlalchemy.orm import Session

from pipeline.database.artefacts import artefact_path, read_artefact, store_bytes, store_json
from pipeline.database.errors import DataDirUnusable
from pipeline.database.models import Artefact
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import NotFound
from pipeline.settings import get_settings


def test_content_comes_back_and_twice_is_one_row(session: Session) -> None:
    first = store_bytes(session, b"evidence", "evidence", "text/plain")
    assert first == hashlib.sha256(b"evidence").hexdigest()
    assert store_bytes(session, b"evidence", "evidence") == first
    assert read_artefact(first) == b"evidence"
    row = session.query(Artefact).one()
    assert (row.size_bytes, row.media_type) == (8, "text/plain")


def test_equal_json_is_one_artefact(session: Session) -> None:
    assert store_json(session, {"a": 1, "b": 2}, "manifest") == store_json(session, {"b": 2, "a": 1}, "manifest")


def test_a_full_disk_leaves_no_file_and_no_row(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataDirUnusable, match="No space left"):
        store_bytes(session, b"big", "evidence")
    path = artefact_path(hashlib.sha256(b"big").hexdigest())
    assert not path.exists()
    assert list(path.parent.iterdir()) == []
    assert session.query(Artefact).count() == 0


def test_a_changed_file_is_not_handed_out(session: Session) -> None:
    digest = store_bytes(session, b"true", "evidence")
    artefact_path(digest).write_bytes(b"false")
    with pytest.raises(DataDirUnusable, match="restore"):
        read_artefact(digest)


@pytest.mark.parametrize(("first", "later"), [("database", "file"), ("file", "database")])
def test_what_was_stored_before_the_setting_changed_is_still_found(
    database: str, monkeypatch: pytest.MonkeyPatch, first: str, later: str
) -> None:
    kept_in(first, monkeypatch)
    with unit_of_work() as session:
        digest = store_bytes(session, b"evidence", "evidence")
    kept_in(later, monkeypatch)
    assert read_artefact(digest) == b"evidence"


def kept_in(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPYRE_FACTORY_ARTEFACT_STORE", store)
    get_settings.cache_clear()


@pytest.mark.parametrize("digest", ["0" * 64, "../../etc/passwd", "G" * 64, ""])
def test_what_is_not_stored_is_not_found(session: Session, digest: str) -> None:
    with pytest.raises(NotFound):
        read_artefact(digest)
