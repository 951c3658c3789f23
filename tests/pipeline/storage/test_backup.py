"""A backup made while work goes on comes back whole, on both databases; nothing is overwritten unasked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import delete
from sqlalchemy.orm import Session

from benchmarks.servers import wait_until as until
from pipeline.database.artefacts import artefact_path, read_artefact, store_bytes
from pipeline.database.models import Artefact, ArtefactContent
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.errors import BadInput, Conflict, NotFound
from pipeline.review.repository import list_candidates
from pipeline.settings import get_settings
from pipeline.storage.backup import read_backup, write_backup
from pipeline.work.installation import take_charge
from pipeline.work.models import Run


def runs() -> int:
    with reading() as session:
        return session.query(Run).count()


def lose(session: Session, digest: str) -> None:
    """Take away the content of an artefact, wherever it is kept."""
    session.execute(delete(ArtefactContent).where(ArtefactContent.digest == digest))
    artefact_path(digest).unlink(missing_ok=True)


@pytest.mark.parametrize("store", ["file", "database"])
def test_what_was_backed_up_under_load_comes_back_and_holds(
    database: str,
    sweep_of: Callable[..., int],
    drain: Callable[[], list[int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    store: str,
) -> None:
    monkeypatch.setenv("SPYRE_FACTORY_ARTEFACT_STORE", store)
    get_settings.cache_clear()
    sweep_of("a/real-one", "a/stock-two")
    drain()
    with unit_of_work() as session:
        kept = store_bytes(session, b"evidence", "evidence")
    stop, before = threading.Event(), runs()

    def write_on() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            with unit_of_work() as session:
                store_bytes(session, b"%d" % number, "plot")

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        until(lambda: "plot" in kinds())
        made = write_backup(get_settings(), tmp_path / "backup.tar")
    finally:
        stop.set()
        writer.join()
    sweep_of("a/later")
    with unit_of_work() as session:
        lose(session, kept)
    with pytest.raises(NotFound):
        read_artefact(kept)
    assert runs() > before
    done = read_backup(get_settings(), tmp_path / "backup.tar", replace=True)
    assert (done.broken, done.artefacts) == ([], made.artefacts)
    assert (runs(), read_artefact(kept)) == (before, b"evidence")
    with reading() as session:
        assert len(list_candidates(session)) == 1
        rows = {row.digest: row.size_bytes for row in session.query(Artefact)}
        assert session.query(ArtefactContent).count() == (len(rows) if store == "database" else 0)
    assert {digest: len(read_artefact(digest)) for digest in rows} == rows
    assert {"evidence", "plot"} <= set(kinds())


def kinds() -> list[str]:
    with reading() as session:
        return [row.kind for row in session.query(Artefact)]


SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


@SQLITE
def test_nothing_is_overwritten_unasked_or_while_something_runs(database: str, tmp_path: Path) -> None:
    settings, file = get_settings(), tmp_path / "backup.tar"
    write_backup(settings, file)
    with pytest.raises(Conflict, match="--replace"):
        read_backup(settings, file)
    lock = take_charge(settings)
    assert lock is not None
    with lock, pytest.raises(Conflict, match="end it"):
        read_backup(settings, file, replace=True)


@SQLITE
@pytest.mark.parametrize("content", [b"", b"no tar", b"\0" * 10_240])
def test_another_file_is_refused_and_changes_nothing(content: bytes, database: str, tmp_path: Path) -> None:
    file = tmp_path / "backup.tar"
    file.write_bytes(content)
    with pytest.raises(BadInput):
        read_backup(get_settings(), file, replace=True)
    assert runs() == 0
