"""`db backup` and `db restore`: one tar file with the database and every artefact.

The database is copied first, by its own means, in one consistent state while the service runs (SQLite's online backup,
`pg_dump`); artefacts after it. An artefact's file is written before its row, so a copied row never lacks its file.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sqlite3
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from sqlalchemy import make_url

from pipeline.database import migrate
from pipeline.database.artefacts import artefact_path
from pipeline.database.engine import dispose_engines, engine_for
from pipeline.database.unit_of_work import reading
from pipeline.errors import BadInput, Conflict, EnvironmentProblem
from pipeline.settings import Settings
from pipeline.work.installation import prepare_data_dir, take_charge
from pipeline.work.invariants import broken, violations

FORMAT = 1
ABOUT, DATABASE, ARTEFACTS = "about.json", "database", "artefacts"
TOOL_S = 3_600


class Backup(NamedTuple):
    """A backup that was written."""

    file: str
    kind: str
    revision: str | None
    artefacts: int
    bytes: int


class Restored(NamedTuple):
    """What came back, and the invariants that do not hold (none is the only good answer)."""

    kind: str
    revision: str
    artefacts: int
    broken: list[str]


def write_backup(settings: Settings, file: Path) -> Backup:
    """Write everything but keys and caches to `file`, which appears when it is whole. Raises `EnvironmentProblem`."""
    part = file.with_name(f".{file.name}.part")
    with _disk(file), tempfile.TemporaryDirectory(dir=file.parent, prefix=".backup-") as work:
        copy = Path(work) / DATABASE
        _dump(settings.sqlalchemy_url, copy)
        with tarfile.open(part, "w") as tar:
            tar.add(copy, DATABASE)
            artefacts = sorted((settings.data_dir / ARTEFACTS).glob("??/*"))
            kept = [path for path in artefacts if not path.name.startswith(".")]
            for path in kept:
                tar.add(path, f"{ARTEFACTS}/{path.parent.name}{path.name}")
            about: dict[str, Any] = {"format": FORMAT, "kind": _kind(settings.sqlalchemy_url), "artefacts": len(kept)}
            about |= {"revision": migrate.current_revision(settings.sqlalchemy_url)}
            _add(tar, ABOUT, json.dumps(about).encode())
        part.replace(file)
    return Backup(str(file), about["kind"], about["revision"], len(kept), file.stat().st_size)


def read_backup(settings: Settings, file: Path, *, replace: bool = False) -> Restored:
    """Bring a backup back. Raises `Conflict` while something runs or is there already, `BadInput` for another file."""
    prepare_data_dir(settings)
    lock = take_charge_alone(settings)
    with lock, _opened(file) as tar:
        about = _about(tar, settings)
        if not replace and migrate.current_revision(settings.sqlalchemy_url) is not None:
            raise Conflict("This installation has a database already: give --replace to overwrite it.")
        with _disk(settings.data_dir), tempfile.TemporaryDirectory(dir=settings.data_dir, prefix=".restore-") as work:
            tar.extract(DATABASE, work, filter="data")
            _load(settings.sqlalchemy_url, Path(work) / DATABASE)
            count = _unpack(tar)
    revision = migrate.upgrade(settings.sqlalchemy_url)
    with reading(settings.sqlalchemy_url) as session:
        return Restored(about["kind"], revision, count, broken(violations(session)))


def take_charge_alone(settings: Settings) -> IO[bytes]:
    """The lock of the data directory. Raises `Conflict` if `up` or a sweep has it."""
    lock = take_charge_of_folder(settings)
    if lock is None:
        raise Conflict(f"Something runs in {settings.data_dir}: end it before a restore.")
    return lock


def take_charge_of_folder(settings: Settings) -> IO[bytes] | None:
    """As `take_charge`, without a look at the database, which may not be there yet."""
    return take_charge(settings.model_copy(update={"broker_url": settings.broker_url or "none://"}))


def _kind(url: str) -> str:
    return make_url(url).get_backend_name()


def _dump(url: str, to: Path) -> None:
    if _kind(url) == "sqlite":
        source = make_url(url).database or ""
        with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(to)) as new:
            old.backup(new)
        return
    _tool("pg_dump", "--format=custom", "--no-owner", f"--file={to}", _libpq(url))


def _load(url: str, copy: Path) -> None:
    dispose_engines()
    if _kind(url) == "postgresql":
        _tool("pg_restore", "--clean", "--if-exists", "--no-owner", "--single-transaction", f"--dbname={_libpq(url)}",
              str(copy))  # fmt: skip
        return
    target = Path(make_url(url).database or "")
    for suffix in ("-wal", "-shm"):
        target.with_name(target.name + suffix).unlink(missing_ok=True)
    shutil.copyfile(copy, target.with_name(f".{target.name}.part"))
    target.with_name(f".{target.name}.part").replace(target)


def _libpq(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=True)


def _tool(*command: str) -> None:
    """Run a program of PostgreSQL's; a password goes by its environment, where no list of processes shows it."""
    password = engine_for().url.password
    env = {**os.environ, **({"PGPASSWORD": str(password)} if password else {})}
    plain = [part.replace(":***@", "@") for part in command]
    try:
        done = subprocess.run(plain, env=env, capture_output=True, text=True, timeout=TOOL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentProblem(f"{command[0]} cannot be run: {error}; install PostgreSQL's client.") from error
    if done.returncode:
        raise EnvironmentProblem(f"{command[0]} failed: {done.stderr.strip()[-500:]}")


def _unpack(tar: tarfile.TarFile) -> int:
    """The artefacts of the file, each under the name of its content."""
    count = 0
    for member in tar.getmembers():
        folder, _, digest = member.name.partition("/")
        content = tar.extractfile(member) if folder == ARTEFACTS and member.isfile() else None
        if content is not None:
            path = artefact_path(digest)
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f".part-{digest[:8]}")
            part.write_bytes(content.read())
            part.replace(path)
            count += 1
    return count


def _about(tar: tarfile.TarFile, settings: Settings) -> dict[str, Any]:
    try:
        about = json.load(tar.extractfile(ABOUT) or io.BytesIO())
    except (KeyError, ValueError) as error:
        raise BadInput("The file is no backup of this program.") from error
    if about.get("format") != FORMAT or about.get("kind") != _kind(settings.sqlalchemy_url):
        raise BadInput(f"The backup is of {about.get('kind')!r}, this installation uses another database.")
    return dict(about)


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


@contextmanager
def _opened(file: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(file) as tar:
            yield tar
    except (OSError, tarfile.TarError) as error:
        raise BadInput(f"{str(file)!r} cannot be read: {error}.") from error


@contextmanager
def _disk(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EnvironmentProblem(f"{str(place)!r} cannot be written: {error.strerror}.") from error
