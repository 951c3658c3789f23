"""The weights cache: whole checkpoints by model and revision, under a cap, least recently used first to go.

    ROOT/checkpoints/ORG--NAME/REVISION/    complete checkpoints; a folder is there or it is not, never in part
    ROOT/partial/ORG--NAME--REVISION/       what a broken fetch left, so that the next one resumes
    ROOT/locks/                             one lock file per checkpoint

A checkpoint that a process holds (`hold`) is never removed; the hold ends with the process, even when it is killed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import BadInput, EnvironmentProblem

DEFAULT_CAP_BYTES = 50_000_000_000
_MODEL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
_REVISION = re.compile(r"[0-9a-f]{40}")
RECORD = "fetched.json"
"""Where a stored checkpoint says where it came from."""


@dataclass(frozen=True)
class WeightsCache:
    """A cache folder and its cap in bytes (complete checkpoints; partial ones come on top). Making one does nothing."""

    root: Path
    cap_bytes: int = DEFAULT_CAP_BYTES

    def folder(self, model_id: str, revision: str) -> Path:
        """Where the checkpoint is, or will be. Raises BadInput for an id or revision that is none."""
        if not _MODEL_ID.fullmatch(model_id) or ".." in model_id:
            raise BadInput(f"{model_id!r:.100} is not a model id; give one such as 'org/name'")
        if not _REVISION.fullmatch(revision):
            raise BadInput(f"{revision!r:.60} is not a commit; give 40 hexadecimal digits")
        return self.root / "checkpoints" / model_id.replace("/", "--") / revision

    def partial(self, model_id: str, revision: str) -> Path:
        """Where a fetch collects files until all are there."""
        folder = self.folder(model_id, revision)
        return self.root / "partial" / f"{folder.parent.name}--{folder.name}"

    def find(self, model_id: str, revision: str) -> Path | None:
        """The stored checkpoint, marked as just used; None if it is not stored."""
        folder = self.folder(model_id, revision)
        if not (folder / RECORD).is_file():
            return None
        with suppress(OSError):  # a read-only cache still serves; it only forgets the order of use
            os.utime(folder)
        return folder

    @contextmanager
    def hold(self, folder: Path) -> Iterator[Path]:
        """Keeps a stored checkpoint from being removed while it is used. Many may hold it.

        Raises EnvironmentProblem if it was removed before the hold began.
        """
        with self._locked(folder, fcntl.LOCK_SH):
            if not (folder / RECORD).is_file():
                raise EnvironmentProblem(f"{str(folder)!r} was removed from the weights cache; fetch it again")
            yield folder

    @contextmanager
    def fetching(self, model_id: str, revision: str) -> Iterator[Path]:
        """The partial folder, for one fetch at a time; a second one waits and then finds the result."""
        partial = self.partial(model_id, revision)
        with self._locked(partial, fcntl.LOCK_EX):
            with disk_errors(self.root):
                partial.mkdir(parents=True, exist_ok=True)
            yield partial

    def publish(self, partial: Path, folder: Path) -> Path:
        """Moves a complete partial folder into place, at once. Raises EnvironmentProblem."""
        with disk_errors(self.root):
            folder.parent.mkdir(parents=True, exist_ok=True)
            self._discard(folder)
            partial.rename(folder)
            _sync_folder(folder.parent)
        return folder

    def make_room(self, needed_bytes: int) -> None:
        """Removes least recently used checkpoints until `needed_bytes` fit under the cap and onto the disk.

        Raises EnvironmentProblem if they cannot: too much is held, or the disk is too small.
        """
        stored = sorted(self._stored(), key=lambda item: item[1])
        used = sum(size for _, _, size in stored)
        for folder, _, size in stored:
            if used + needed_bytes <= self.cap_bytes and needed_bytes <= self._free():
                return
            used -= size if self._remove(folder) else 0
        if used + needed_bytes > self.cap_bytes:
            raise EnvironmentProblem(
                f"{needed_bytes:,} bytes do not fit the weights cache of {self.cap_bytes:,}; raise its cap"
            )
        if needed_bytes > self._free():
            raise DiskProblem(f"{needed_bytes:,} bytes do not fit the disk of {str(self.root)!r}; free some space")

    def _stored(self) -> Iterator[tuple[Path, float, int]]:
        for record in self.root.glob(f"checkpoints/*/*/{RECORD}"):
            folder = record.parent
            size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
            yield folder, folder.stat().st_mtime, size

    def _remove(self, folder: Path) -> bool:
        """True if it was removed; a held one stays."""
        try:
            with self._locked(folder, fcntl.LOCK_EX | fcntl.LOCK_NB):
                self._discard(folder)
        except BlockingIOError:
            return False
        return True

    def _discard(self, folder: Path) -> None:
        """Renames it away and deletes it then, so that no half of it is ever found."""
        away = self.root / "removed" / secrets.token_hex(8)
        with suppress(FileNotFoundError):
            away.parent.mkdir(parents=True, exist_ok=True)
            folder.rename(away)
        shutil.rmtree(away.parent, ignore_errors=True)

    def _free(self) -> int:
        with disk_errors(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            return shutil.disk_usage(self.root).free

    @contextmanager
    def _locked(self, folder: Path, mode: int) -> Iterator[None]:
        path = self.root / "locks" / f"{folder.parent.name}--{folder.name}"
        with disk_errors(self.root):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, mode)
            yield
        finally:
            os.close(descriptor)


_DISK = {
    errno.ENOSPC: "the disk is full; free some space",
    errno.EDQUOT: "the quota is used up; free some space",
    errno.EROFS: "it is read-only; choose another data directory",
    errno.EACCES: "it may not be written; give this user the right or choose another data directory",
    errno.EPERM: "it may not be written; give this user the right or choose another data directory",
}


class DiskProblem(EnvironmentProblem):
    """Our own disk refused a write: full, read-only, not ours."""


@contextmanager
def disk_errors(root: Path) -> Iterator[None]:
    """Turns an OSError of our own disk into one DiskProblem that names the folder and the remedy."""
    try:
        yield
    except OSError as error:
        reason = _DISK.get(error.errno or 0, f"{error.strerror or error}; check the folder")
        raise DiskProblem(f"{str(root)!r} cannot be written: {reason}") from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
