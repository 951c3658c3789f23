"""Transfers one file of the Hub to disk: resumed where it broke, bounded by its listed size, checked by its digest."""

from __future__ import annotations

import hashlib
import os
from io import FileIO
from pathlib import Path

from pipeline.catalogue.hub import HubClient, HubFile
from pipeline.catalogue.hub_errors import hub_errors, unreachable
from pipeline.errors import EnvironmentProblem
from pipeline.weights.cache import disk_errors

ATTEMPTS = 3
"""Connections per file; each must bring at least one byte for the next to be made."""

READ_TIMEOUT_S = 60.0
"""Seconds without a byte after which a connection counts as broken."""

_CHUNK = 1 << 20


def download(hub: HubClient, model_id: str, revision: str, file: HubFile, target: Path, root: Path) -> int:
    """Brings `file` of the commit `revision` to `target`; returns the bytes transferred, 0 if it was there.

    The file appears at `target` only when it is complete and its digest is right; until then it grows beside it as
    `NAME.part`. `root` is the folder that disk errors name. Raises CheckpointProblem("gated") or EnvironmentProblem.
    """
    if target.is_file() and _is_right(target, file):
        return 0
    part = target.with_name(target.name + ".part")
    with disk_errors(root):
        part.parent.mkdir(parents=True, exist_ok=True)
    read = _transfer(hub, model_id, revision, file, part, root)
    if not _is_right(part, file):
        part.unlink()
        raise EnvironmentProblem(f"{model_id!r}: {file.name} arrived damaged; it is tried again later")
    with disk_errors(root):
        part.replace(target)
    return read


def _transfer(hub: HubClient, model_id: str, revision: str, file: HubFile, part: Path, root: Path) -> int:
    read = 0
    if _size(part) > file.size:
        part.unlink()
    for _ in range(ATTEMPTS):
        start = _size(part)
        if start < file.size or not part.exists():
            _connect(hub, model_id, revision, file, part, root)
        read += max(0, _size(part) - start)
        if _size(part) == file.size:
            return read
        if _size(part) <= start:
            break
    raise EnvironmentProblem(f"{model_id!r}: the transfer of {file.name} broke off; the next fetch resumes it")


def _connect(hub: HubClient, model_id: str, revision: str, file: HubFile, part: Path, root: Path) -> None:
    """One connection. A connection that breaks returns with what it brought; one that brings nothing raises."""
    import httpx2
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils import get_session, hf_raise_for_status

    start = _size(part)
    headers = {**hub.headers(), "Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    url = hf_hub_url(model_id, file.name, revision=revision, endpoint=hub.endpoint)
    with disk_errors(root):
        output = part.open("ab", buffering=0)
    with output:
        try:
            with get_session().stream("GET", url, headers=headers, timeout=READ_TIMEOUT_S) as answer:
                with hub_errors(model_id, hub.endpoint):
                    hf_raise_for_status(answer)
                _restart_unless_partial(output, answer.status_code, start, root)
                for chunk in answer.iter_raw():
                    _append(output, chunk, file, model_id, root)
        except httpx2.TransportError as error:
            if _synced_size(output, root) <= start:
                raise unreachable(hub.endpoint, error) from error
        _synced_size(output, root)


def _restart_unless_partial(output: FileIO, status: int, start: int, root: Path) -> None:
    """A server that ignores `Range` sends the whole file: what was there is dropped."""
    if start and status != 206:
        with disk_errors(root):
            output.truncate(0)


def _append(output: FileIO, chunk: bytes, file: HubFile, model_id: str, root: Path) -> None:
    with disk_errors(root):
        if os.fstat(output.fileno()).st_size + len(chunk) > file.size:
            output.truncate(0)
            raise EnvironmentProblem(f"{model_id!r}: {file.name} is longer than the Hub lists; it is tried again later")
        rest = memoryview(chunk)
        while rest:
            rest = rest[output.write(rest) :]


def _synced_size(output: FileIO, root: Path) -> int:
    with disk_errors(root):
        os.fsync(output.fileno())
        return os.fstat(output.fileno()).st_size


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _is_right(path: Path, file: HubFile) -> bool:
    """True if the content is what the Hub lists; only the size is compared where it lists no digest."""
    if path.stat().st_size != file.size:
        return False
    digest = hashlib.sha256() if file.sha256 else hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)
    with path.open("rb") as content:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
    expected = file.sha256 or file.blob_sha1
    return expected is None or digest.hexdigest() == expected
