"""What a worker does with one message: claim the run, run its child, store the result. Safe to call twice.

The transaction that claims ends before the child starts; the one that stores the result begins after it has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import time
from pathlib import Path
from typing import Any

import structlog
from structlog.contextvars import bound_contextvars

from pipeline.database.artefacts import store_bytes
from pipeline.database.errors import DatabaseUnavailable
from pipeline.database.faults import fault_point
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import CheckpointProblem, FactoryError
from pipeline.settings import Settings, get_settings
from pipeline.work import flow, memory, repository, shutdown
from pipeline.work.control import is_paused
from pipeline.work.environment import environment_of
from pipeline.work.errors import LeaseLost, NoRoom
from pipeline.work.models import Outcome
from pipeline.work.process import ChildResult
from pipeline.work.repository import Lease
from pipeline.work.results import StageResult, child_failed, cut, result_from_out
from pipeline.work.shutdown import ShuttingDown
from pipeline.work.specs import Job, job_of
from pipeline.work.stages import STAGES
from pipeline.work.starting import run_stage_child

STORE_PAUSES_S = (1.0, 5.0)
TICK_S = 0.5
ROOM_WAIT_S, ROOM_POLL_S = 10.0, 0.5
"""How long a slot without enough free memory waits for its turn before it lets the message go."""
OUT_LIMIT_BYTES = 64 * 1024 * 1024


def owner_name() -> str:
    """Who holds a lease: this host and process."""
    return f"{socket.gethostname()}:{os.getpid()}"


def work_on(hint: int) -> bool:
    """Do one stage of one subject: that of the highest priority, for a message that names the run `hint`.

    False if there is nothing to do: the run is done or somebody else's, the queue is paused, the disk is full.
    """
    settings = get_settings()
    claimed = _claim_with_room(hint, settings)
    if claimed is None:
        return False
    lease, cached = claimed
    with bound_contextvars(run=lease.run_id, stage=lease.stage, request=lease.request_id):
        return _work(lease, cached, settings)


def _work(lease: Lease, cached: dict[str, Any] | None, settings: Settings) -> bool:
    """Do the stage and store its result; False if the worker is to stop and the run was given back."""
    fault_point("claimed")
    try:
        result, versions = (result_from_out(cached), {}) if cached else _run(lease, settings)
    except ShuttingDown:
        _give_back(lease)
        return False
    fault_point("child_ended")
    _complete(lease, result, versions)
    return True


def _give_back(lease: Lease) -> None:
    """Another worker takes it at once; if this cannot be said, the end of the lease says it."""
    with contextlib.suppress(LeaseLost, DatabaseUnavailable), unit_of_work() as session:
        repository.give_back(session, lease)
    structlog.get_logger().info("run.given_back")


def _complete(lease: Lease, result: StageResult, versions: dict[str, Any]) -> None:
    """Store the result. A database that is away is waited for; a result that cannot be stored is our fault, `infra`."""
    log = structlog.get_logger()
    for pause_s in (*STORE_PAUSES_S, None):
        try:
            with unit_of_work() as session:
                run = flow.complete(session, lease, result, versions)
            log.info("run.finished", outcome=run.outcome, reason=run.reason[:200])
            return
        except LeaseLost as lost:
            log.warning("run.lease_lost", detail=str(lost))
            return
        except DatabaseUnavailable as problem:
            log.warning("run.not_stored", detail=str(problem))
            if pause_s is None:
                raise
            time.sleep(pause_s)
        except Exception as problem:
            log.exception("run.result_refused")
            reason = cut(f"The result could not be stored: {type(problem).__name__}: {problem}")
            result, versions = StageResult(Outcome.INFRA, reason), {}


Claimed = tuple[Lease, dict[str, Any] | None]
"""A lease, and the stored capability report that answers it, if there is one."""


def _claim_with_room(hint: int, settings: Settings) -> Claimed | None:
    """The next run, once there is memory for it; None if there is none, or no room within `ROOM_WAIT_S`."""
    deadline = time.monotonic() + ROOM_WAIT_S
    while not shutdown.is_announced():
        try:
            return _claim(hint, settings)
        except NoRoom:
            if time.monotonic() >= deadline:
                return None
            time.sleep(ROOM_POLL_S)
    return None


def _claim(hint: int, settings: Settings) -> Claimed | None:
    if not has_free_disk(settings):
        return None
    with unit_of_work() as session:
        if is_paused(session):
            return None
        lease = repository.claim_hinted(session, hint, owner_name(), settings.lease_seconds)
        if lease is None:
            return None
        cached = flow.cached_capability(session, lease.run_id)
        if cached is None and not memory.has_room(session, lease.run_id, socket.gethostname(), settings):
            raise NoRoom(f"run {lease.run_id} does not fit beside what runs here")
        return lease, cached


def has_free_disk(settings: Settings) -> bool:
    """False while the data directory's file system is below the free-disk floor: claims pause."""
    free = shutil.disk_usage(settings.data_dir).free
    return free >= settings.free_disk_floor_mb * 1024 * 1024


def _run(lease: Lease, settings: Settings) -> tuple[StageResult, dict[str, Any]]:
    """The stage boundary: whatever goes wrong becomes a result, ours as `infra`, the checkpoint's as `failed`."""
    try:
        with unit_of_work() as session:
            job = job_of(session, lease.run_id, settings)
        versions = environment_of(job.spec["profile"])
        return _run_job(lease, job, settings), versions
    except LeaseLost:
        return StageResult(Outcome.INFRA, "The lease was lost while the child ran."), {}
    except ShuttingDown:
        raise
    except CheckpointProblem as problem:
        return StageResult(Outcome.FAILED, str(problem), problem.kind), {}
    except FactoryError as problem:
        return StageResult(Outcome.INFRA, str(problem)), {}
    except Exception as problem:  # noqa: BLE001 - the task boundary: recorded as our fault, tried again
        structlog.get_logger().exception("run.broken")
        return StageResult(Outcome.INFRA, f"{type(problem).__name__}: {problem}"), {}


def _run_job(lease: Lease, job: Job, settings: Settings) -> StageResult:
    workdir = settings.data_dir / "work" / f"run-{lease.run_id}-{lease.fence}"
    workdir.mkdir(parents=True, exist_ok=True)
    try:
        child, out = _run_in(workdir, lease, job, settings)
        return _result(child, out, workdir)
    finally:
        shutil.rmtree(workdir, ignore_errors=True)


def _run_in(workdir: Path, lease: Lease, job: Job, settings: Settings) -> tuple[ChildResult, Path]:
    spec, out = workdir / "spec.json", workdir / "out.json"
    document = {
        **job.spec,
        "checkpoint_dir": job.local_path,
        "workdir": str(workdir),
        "data_dir": str(settings.data_dir),
    }
    spec.write_text(json.dumps(document))
    beat = Heartbeat(lease, settings.lease_seconds)
    return run_stage_child(settings, STAGES[job.stage], (spec, out), job.environment, beat, TICK_S), out


class Heartbeat:
    """Called all the time while a child runs: keeps the lease alive, notices that it is lost or the worker is to stop.

    A database that is away is waited for as long as the lease holds; the child goes on meanwhile.
    """

    def __init__(self, lease: Lease, ttl_s: float) -> None:
        self._lease, self._ttl_s = lease, ttl_s
        self._renewed = self._tried = time.monotonic()

    def __call__(self) -> None:
        """Raise `LeaseLost`, `ShuttingDown`, or `DatabaseUnavailable` once the lease must have run out."""
        shutdown.raise_if_announced()
        now = time.monotonic()
        if now - self._tried < self._ttl_s / 4:
            return
        self._tried = now
        try:
            with unit_of_work() as session:
                repository.renew(session, self._lease, self._ttl_s)
            self._renewed = now
        except DatabaseUnavailable:
            if now - self._renewed > self._ttl_s:
                raise


def _result(child: ChildResult, out: Path, workdir: Path) -> StageResult:
    if not child.ok:
        return child_failed(child.problem or "crashed", child.reason, child.seconds, child.peak_rss_mb)
    if not out.is_file() or out.stat().st_size > OUT_LIMIT_BYTES:
        return StageResult(Outcome.INFRA, f"The child left no usable result. {child.stderr[-500:]}")
    try:
        document = json.loads(out.read_text())
    except ValueError as error:
        return StageResult(Outcome.INFRA, f"The child's result is not JSON: {error}")
    measured = {"seconds": child.seconds, "peak_rss_mb": child.peak_rss_mb}
    return result_from_out({**measured, **document, "artefacts": _store_artefacts(document, workdir)})


def _store_artefacts(document: dict[str, Any], workdir: Path) -> list[dict[str, Any]]:
    return [_store_artefact(item, workdir) for item in document.get("artefacts") or ()]


def _store_artefact(item: dict[str, Any], workdir: Path) -> dict[str, Any]:
    """Store one file the child left in its own folder; a path that leads out of it is refused."""
    path = (workdir / item["path"]).resolve()
    if not path.is_relative_to(workdir.resolve()):
        raise FactoryError(f"The child named an artefact outside its folder: {item['path']!r}.")
    content = path.read_bytes()
    kind = str(item.get("kind", "evidence"))
    with unit_of_work() as session:
        digest = store_bytes(session, content, kind, str(item.get("media_type", "application/octet-stream")))
    return {"digest": digest, "kind": kind, "name": str(item.get("name", path.name)), "bytes": len(content)}
