"""Whatever is killed, lost or cut off: every run ends, nothing is done twice, nothing passes without its evidence."""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections import Counter
from pathlib import Path

import psutil
import pytest

from benchmarks.installation import Installation
from pipeline.database.accounts import ensure_principal, local_reviewer
from pipeline.database.models import PrincipalKind, Role
from pipeline.database.unit_of_work import database_now, reading, unit_of_work
from pipeline.errors import FactoryError
from pipeline.releases.models import Adapter
from pipeline.review.candidates import get_candidate
from pipeline.review.errors import StaleApproval
from pipeline.review.models import CandidateState, EvidenceRow
from pipeline.review.service import approve, seen_digest
from pipeline.settings import get_settings
from pipeline.work.models import Run
from pipeline.work.worker import work_on

from ..pipeline.conftest import FAKE_CHILD
from .proxy import CommitEater
from .schedules import Runner
from .work import Work, holds, until

pytestmark = [pytest.mark.postgres, pytest.mark.redis, pytest.mark.timeout(240)]
BOTH = pytest.mark.parametrize("kind", ["service", "embedded"])


def installation(kind: str, request: pytest.FixtureRequest) -> Installation:
    found: Installation = request.getfixturevalue(kind)
    return found


def calls(settings_dir: Path) -> Counter[str]:
    """Stage and model to how often a child was started for it."""
    lines = (settings_dir / "calls.log").read_text().splitlines()
    return Counter(" ".join(line.split()[:2]) for line in lines)


@BOTH
def test_a_killed_worker(kind: str, request: pytest.FixtureRequest) -> None:
    made = installation(kind, request)
    made.start("dispatcher")
    worker = made.start("worker")
    work = Work("a/stock-pause-capture", "a/stock-two", "a/three")
    until(lambda: work.is_at("capture"))
    worker.kill()
    made.start("worker")
    work.ends_well()
    assert max(run.deliveries for run in work.runs()) == 2, "its lease ran out and another took it"


@BOTH
def test_a_killed_dispatcher(kind: str, request: pytest.FixtureRequest) -> None:
    made = installation(kind, request)
    made.start("worker")
    work = Work("a/stock-one", "a/stock-two", "a/three")
    dispatcher = made.start("dispatcher")
    until(lambda: work.is_at("inspect", "done"))
    dispatcher.kill()
    made.start("dispatcher")
    work.ends_well()


@pytest.mark.parametrize(
    "point",
    ["claimed:kill", "child_ended:kill", *(f"{when}_commit:kill:{n}" for when in ("before", "after") for n in (1, 3))],
)
def test_a_pool_process_that_dies_at_a_named_point(point: str, service: Installation) -> None:
    service.start("dispatcher")
    faulty = service.start("worker", fault=point, workers="1")
    work = Work("a/stock-one", "a/two")
    until(lambda: "SIGKILL" in faulty.log.read_text())
    faulty.kill()
    service.start("worker")
    work.ends_well()
    assert max(run.fence for run in work.runs()) <= 3


def test_a_dispatcher_that_dies_between_commit_and_send(service: Installation) -> None:
    service.start("worker")
    work = Work("a/stock-one", "a/stock-two")
    faulty = service.start("dispatcher", fault="sent_marked:kill")
    until(faulty.has_ended)
    assert all(run.sent_at is not None for run in work.runs()), "marked, and never sent"
    service.start("dispatcher")
    work.ends_well()


@pytest.mark.parametrize("stage", ["inspect", "capture", "execute", "diagnose", "draft", "verify"])
def test_a_killed_child_costs_one_row(stage: str, embedded: Installation) -> None:
    embedded.start("worker")
    embedded.start("dispatcher")
    stock = "stock-" if stage == "execute" else ""
    model = f"a/{stock}pause-{stage}"
    work = Work(model, "a/stock-two")
    work.until(lambda: bool(children(stage, model)))
    for child in children(stage, model):
        child.kill()
    work.ends_well(passed="stock-two")
    struck = [run for run in work.runs() if run.stage == stage and run.kind == "crashed"]
    assert [run.outcome for run in struck] == ["failed"]
    assert "SIGKILL" in struck[0].reason


def children(stage: str, model: str) -> list[psutil.Process]:
    """The fake children of this stage of this model that have begun; not their reapers."""
    log = Path(get_settings().data_dir) / "calls.log"
    begun = log.read_text().splitlines() if log.exists() else []
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if line[1:3] == [str(FAKE_CHILD), stage] and f"{stage} {model} {process.pid}" in begun:
            found.append(process)
    return found


@BOTH
def test_a_task_longer_than_its_lease(kind: str, request: pytest.FixtureRequest) -> None:
    made = installation(kind, request)
    made.start("worker")
    made.start("dispatcher")
    work = Work("a/stock-pause-capture")
    work.ends_well()
    assert {run.deliveries for run in work.runs()} == {1}
    assert max(calls(made.settings.data_dir).values()) == 1


@pytest.mark.parametrize("how", ["forgets", "restarts", "restarts, which ends the workers", "is away"])
def test_redis(how: str, service: Installation) -> None:
    runner = Runner(service)
    work = Work("a/stock-slow-one", "a/stock-slow-two", "a/stock-three", "a/four")
    until(lambda: work.is_at("capture"))
    if how == "forgets":
        service.redis.flush()
    else:
        service.redis.kill()
        if how == "is away":
            until(lambda: not any(run.state == "claimed" for run in work.runs()))
        service.redis.start()
        if "ends the workers" in how:
            for worker in runner.workers:
                worker.kill()
    work.ends_well(supervise=runner.keep_alive)


def test_postgresql_dies_in_the_middle(service: Installation) -> None:
    service.start("worker")
    service.start("dispatcher")
    work = Work("a/stock-pause-capture", "a/stock-two", "a/three")
    until(lambda: work.is_at("capture"))
    service.postgres.kill()
    service.postgres.start()
    work.ends_well()


def test_the_answer_to_a_commit_is_lost(service: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work("a/stock-one")
    with CommitEater(service.postgres.folder) as proxy:
        monkeypatch.setenv("SPYRE_FACTORY_DATABASE_URL", proxy.url)
        get_settings.cache_clear()
        proxy.eat(after=2)
        assert work_on(1), "claimed, then the answer to the result's commit is lost"
        assert proxy.eaten == 1
    with reading() as session:
        run = session.get_one(Run, 1)
        assert (run.state, run.outcome, run.attempts) == ("done", "passed", 1)
    assert [run.stage for run in work.runs()] == ["inspect", "capture"], "what follows was made once"
    holds()


def test_the_same_message_twice_at_once(service: Installation) -> None:
    work = Work("a/stock-pause-inspect")
    done: list[bool] = []
    threads = [threading.Thread(target=lambda: done.append(work_on(1))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [False, False, False, True]
    assert calls(service.settings.data_dir) == {"inspect a/stock-pause-inspect": 1}
    assert [run.fence for run in work.runs() if run.stage == "inspect"] == [1]
    holds()


def test_a_full_disk_is_our_fault(embedded: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    work = Work("a/stock-one")
    assert work_on(1)
    assert work_on(2)
    real = os.fsync
    monkeypatch.setattr(os, "fsync", full)
    assert work_on(3)
    (execute,) = [run for run in work.runs() if run.stage == "execute"]
    assert (execute.state, execute.outcome) == ("queued", None), "tried again, and no verdict"
    assert "No space left" in execute.reason
    holds()
    monkeypatch.setattr(os, "fsync", real)
    embedded.start("worker")
    embedded.start("dispatcher")
    work.ends_well()


@BOTH
def test_two_reviewers_at_once(kind: str, request: pytest.FixtureRequest) -> None:
    made = installation(kind, request)
    made.start("worker")
    made.start("dispatcher")
    work = Work("a/one")
    work.ends_well()
    with unit_of_work() as session:
        seen = seen_digest(get_candidate(session, 1))
        who = [ensure_principal(session, name, PrincipalKind.HUMAN, [Role.REVIEWER]).name for name in ("x", "y")]
    answers: list[str] = []

    def decide(name: str) -> None:
        try:
            with unit_of_work() as session:
                reviewer = ensure_principal(session, name, PrincipalKind.HUMAN, [])
                approve(session, 1, reviewer, seen=seen, reason="ok")
            answers.append("released")
        except FactoryError as error:
            answers.append(error.code)

    threads = [threading.Thread(target=decide, args=(name,)) for name in who]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == ["not_reviewable", "released"]
    with reading() as session:
        assert session.query(Adapter).filter_by(candidate_id=1).count() == 1
    until(lambda: rested())
    work.ends_well()


def test_what_was_seen_has_changed(embedded: Installation) -> None:
    """New evidence comes between a reviewer's look and the decision: nothing is released on the old look."""
    embedded.start("worker")
    embedded.start("dispatcher")
    work = Work("a/one")
    work.ends_well()
    with reading() as session:
        seen = seen_digest(get_candidate(session, 1))
    newer = come_between()
    assert newer != seen
    with pytest.raises(StaleApproval), unit_of_work() as session:
        approve(session, 1, local_reviewer(session), seen=seen, reason="ok")
    holds(at_rest=True)
    with reading() as session:
        assert session.query(Adapter).filter_by(candidate_id=1).count() == 0
        assert get_candidate(session, 1).state == CandidateState.WAITING
    with unit_of_work() as session:
        approve(session, 1, local_reviewer(session), seen=newer, reason="ok")
    until(lambda: rested())
    work.ends_well()
    with reading() as session:
        assert session.query(Adapter).filter_by(candidate_id=1).count() == 1


def come_between() -> str:
    """Evidence of another environment for the first candidate; what a reviewer has to have seen from now on."""
    with unit_of_work() as session:
        candidate = get_candidate(session, 1)
        old = candidate.evidence[0]
        copied = ("candidate_id", "checkpoint_id", "run_id", "candidate_digest", "tier", "outcome", "complete")
        values = {name: getattr(old, name) for name in (*copied, "measurements", "evidence", "artefacts")}
        now = database_now(session)
        session.add(EvidenceRow(**values, environment="e" * 64, digest="d" * 64, created_at=now))
    with reading() as session:
        return seen_digest(get_candidate(session, 1))


def rested() -> bool:
    with reading() as session:
        return session.query(Run).filter(Run.state.in_(("queued", "claimed"))).count() == 0


def test_sigterm_gives_back_at_once(service: Installation) -> None:
    service.start("dispatcher")
    worker = service.start("worker")
    work = Work("a/stock-pause-capture")
    until(lambda: work.is_at("capture"))
    os.kill(worker.pid, signal.SIGTERM)
    until(worker.has_ended, 10)
    assert work.is_at("capture", "queued"), "not only when its lease runs out"
    service.start("worker")
    work.ends_well()
    assert {run.deliveries for run in work.runs()} == {1}
