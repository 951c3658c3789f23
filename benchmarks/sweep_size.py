"""A catalogue of a million rows on a real PostgreSQL: the rate of the import, then the time of the coverage query.

The rows are those of the catalogue. A part of them is listed again under other names through the import that every
installation uses: that gives the rate. The rest is copied inside the database, for it is the query's size that counts.
Verdicts are given to one row of each group and told to its group, as a sweep does; they
are drawn, so no figure of such a database says anything about models, and none is printed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from benchmarks.figures import Figure, median_figure
from benchmarks.installation import settings_of
from benchmarks.servers import Postgres
from pipeline.catalogue.entry import CatalogueEntry
from pipeline.database.base import Base
from pipeline.database.facts import mark_demo
from pipeline.database.migrate import upgrade
from pipeline.database.unit_of_work import database_now, reading, unit_of_work
from pipeline.sweeps.catalogue import store_snapshot
from pipeline.sweeps.coverage import coverage
from pipeline.sweeps.groups import derive
from pipeline.sweeps.models import Checkpoint, CheckpointStatus, Model
from pipeline.sweeps.repository import own_figures
from pipeline.work.environment import environment_digest
from pipeline.work.models import Outcome, Run, RunState, StageName

ROWS = 1_000_000
IMPORTED = 20_000
"""Rows that go through the import; the others are copies of them."""
PROFILE = "profile-2026-08"
ASKED = 7
QUERY_MS = 500.0


def measure_size(entries: Sequence[CatalogueEntry], rows: int = ROWS) -> Iterator[Figure]:
    """Import `rows` rows, give every group a verdict, ask for the coverage."""
    server = Postgres()
    try:
        with settings_of(database_url=server.url, profile=PROFILE):
            upgrade()
            began, cpu = time.monotonic(), time.process_time()
            stored = sum(len(part) for part in _stored(entries, min(rows, IMPORTED)))
            spent = time.monotonic() - began
            used = time.process_time() - cpu
            yield Figure(
                f"import of {stored:,} rows on PostgreSQL", round(stored / spent), "/s", 0.0, (spent, used), True
            )
            with unit_of_work() as session:
                session.execute(text("SET LOCAL statement_timeout = 0"))
                session.execute(text("SET LOCAL session_replication_role = replica"))  # copies refer to what is there
                copies = _copied(session, -(-rows // stored) - 1)
                _judged(session)
            server.analyze()
            yield from _asked(stored * (1 + copies))
    finally:
        server.close()


def _stored(entries: Sequence[CatalogueEntry], rows: int) -> Iterator[Sequence[CatalogueEntry]]:
    for part in range(-(-rows // len(entries))):
        listed = entries[: rows - part * len(entries)]
        named = [replace(entry, model_id=f"{entry.model_id}~{part}") for entry in listed] if part else listed
        with unit_of_work() as session:
            mark_demo(session, "a database for benchmarks, its verdicts are drawn")
            store_snapshot(session, f"part {part}", named)
        yield named


def _copied(session: Session, times: int) -> int:
    """Copies of every model and its checkpoints, `times` over, under other names; returns `times`.

    What the query does not read (configurations, facts) is left out of the copies.
    """
    last = session.scalar(select(func.max(Model.id))) or 0
    last = max(last, session.scalar(select(func.max(Checkpoint.id))) or 0)
    unread = {"config": "NULL", "facts": "'{}'"}
    differing = {
        "models": {"name": "name || '#' || k"},
        "checkpoints": {"model_id": f"model_id + k * {last}", **unread},
    }
    for table, changed in differing.items():
        names = list(Base.metadata.tables[table].columns.keys())
        values = ", ".join({"id": f"id + k * {last}", **changed}.get(name, name) for name in names)
        copies = f"SELECT {values} FROM {table}, generate_series(1, {times}) AS k"  # noqa: S608 - names of ours only
        session.execute(text(f"INSERT INTO {table} ({', '.join(names)}) {copies}"))
    return times


def _judged(session: Session) -> None:
    """A verdict for the first checkpoint of every group, told to the others: three of four pass."""
    firsts = select(func.min(Checkpoint.id)).where(Checkpoint.group_key.is_not(None)).group_by(Checkpoint.group_key)
    now, environment = database_now(session), environment_digest(PROFILE)
    for number in session.scalars(firsts).all():
        outcome = Outcome.PASSED if number % 4 else Outcome.FAILED
        shared = {"checkpoint_id": number, "profile": PROFILE, "stage": StageName.EXECUTE, "outcome": outcome,
                  "weights": "synthetic", "tier": "sweep", "environment": environment}  # fmt: skip
        run = Run(
            **shared, content_key=f"drawn {number}", weights_mode="synthetic", state=RunState.DONE, created_at=now
        )
        session.add(run)
        session.flush()
        status = CheckpointStatus(
            **shared, run_id=run.id, supported=outcome == Outcome.PASSED, updated_at=now, **own_figures(session, number)
        )
        session.add(status)
        session.flush()
        derive(session, status)


def _asked(stored: int) -> Iterator[Figure]:
    samples = []
    with reading() as session:
        models = session.scalar(select(func.count(Model.id))) or 0
        judged = session.scalar(select(func.count()).select_from(CheckpointStatus)) or 0
        for _ in range(ASKED):
            began = time.monotonic()
            found = coverage(session, PROFILE)
            samples.append(1000 * (time.monotonic() - began))
    if found["total"] != models:
        raise AssertionError(f"coverage counts {found['total']} of {models} models")
    yield median_figure(f"coverage over {models:,} models, {judged:,} of them judged", samples, "ms", QUERY_MS)
    yield Figure("rows that were not stored", float(stored - models), "", 0.0)
