"""A generated database of models for measurements of the service: its names, numbers and verdicts mean nothing.

The shapes are those of a real installation: some hundred families, downloads that fall off as a power of the rank,
three of ten models passing, most others failing for one to eight operations, some left out by the catalogue.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from sqlalchemy import Table, insert, text
from sqlalchemy.orm import Session

from pipeline.catalogue.entry import CatalogueEntry as Listed
from pipeline.releases.models import Adapter
from pipeline.sweeps.models import CatalogueEntry, CatalogueSnapshot, Checkpoint, CheckpointStatus, Model
from pipeline.work.models import FailureRow, Run

PROFILE = "profile-2026-08"
FAMILIES, ADAPTERS, OPS = 300, 40, 90
FIRST_ADAPTER = 1_001
"""The bundled ones are stored before."""
BEGAN = datetime(2026, 11, 1, tzinfo=UTC)
Row = dict[str, Any]


def digest(*parts: object) -> str:
    """A digest that differs for different parts."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def fill(session: Session, models: int, seed: int = 8) -> None:
    """Store `models` models with checkpoints, runs, failures and verdicts. The database has to be empty."""
    draw = random.Random(seed)  # noqa: S311 - a generated catalogue
    _store(session, Adapter, (_adapter(n) for n in range(ADAPTERS)))
    _store(session, Model, (_model(n) for n in range(1, models + 1)))
    _store(session, Checkpoint, (_checkpoint(n) for n in range(1, models + 1)))
    snapshot = {"id": 1, "source": "generated", "digest": digest("snapshot"), "listed": models, "dropped": 0}
    _store(session, CatalogueSnapshot, [{**snapshot, "taken_at": BEGAN}])
    _store(session, CatalogueEntry, (_entry(n) for n in range(1, models + 1)))
    judged = [_judged(n, draw) for n in range(1, models + 1) if n % 20]
    _store(session, Run, (run for run, _, _ in judged))
    _store(session, CheckpointStatus, (status for _, status, _ in judged))
    _store(session, FailureRow, (failure for _, _, failures in judged for failure in failures))
    if session.get_bind().dialect.name == "postgresql":
        for table in (Adapter, Model, Checkpoint, CatalogueSnapshot, CatalogueEntry, Run):
            session.execute(
                text(f"SELECT setval(pg_get_serial_sequence('{table.__tablename__}', 'id'), {models + FIRST_ADAPTER})")
            )


def _store(session: Session, table: Any, rows: Iterable[Row]) -> None:
    target: Table = table.__table__
    left = iter(rows)
    while batch := list(islice(left, 1_000)):
        session.execute(insert(target), batch)


def _adapter(number: int) -> Row:
    manifest = {"patches": ["P01"] * 6, "note": "generated " * 100}
    return {
        "id": FIRST_ADAPTER + number, "name": f"family{number:03}", "version": 1, "origin": "bundled",
        "state": "released",
        "family": digest("family", number), "profile": PROFILE, "digest": digest("adapter", number),
        "scripted": False, "manifest": manifest, "predicate": {}, "created_at": BEGAN, "withdrawn_reason": "",
    }  # fmt: skip


def _model(number: int) -> Row:
    name = f"owner{number % 700:03}/embedding-{number:05}"
    return {"id": number, "name": name, "rank": number, "downloads": 400_000_000 // number, "created_at": BEGAN}


def _checkpoint(number: int) -> Row:
    config = {f"field_{n}": n * number for n in range(30)} | {"model_type": "bert", "architectures": ["BertModel"]}
    model = _model(number)
    listed = Listed(model_id=model["name"], rank=number, downloads=model["downloads"], config=config)
    facts = {key: value for key, value in listed.to_dict().items() if key != "config"}
    return {
        "id": number, "model_id": number, "revision": digest("revision", number)[:40], "config": config,
        "config_digest": digest("config", number % 2_000), "family": digest("family", number % FAMILIES),
        "facts": facts, "created_at": BEGAN,
    }  # fmt: skip


def _entry(number: int) -> Row:
    left_out = number % 20 == 0
    return {
        "id": number, "snapshot_id": 1, "model_id": number, "checkpoint_id": None if left_out else number,
        "position": number, "rank": number, "downloads": 400_000_000 // number,
        "dropped_kind": "remote_code" if left_out else None, "dropped_reason": "It needs code." if left_out else None,
    }  # fmt: skip


def _judged(number: int, draw: random.Random) -> tuple[Row, Row, list[Row]]:
    passed = draw.random() < 0.3
    finished = BEGAN + timedelta(minutes=2 * number)
    shared = {
        "outcome": "passed" if passed else "failed",
        "kind": None if passed else "unsupported_op",
        "reason": "" if passed else "3 causes: the device's compiler refuses aten.pow",
        "adapter_id": FIRST_ADAPTER + number % ADAPTERS if passed else None,
        "stage": "execute" if passed else "capture",
        "weights": ("real" if number % 3 else "synthetic") if passed else None,
        "depth": "2 of 12" if passed and number % 5 == 0 else None,
        "tier": "sweep", "profile": PROFILE, "environment": digest("environment"),
        "fingerprint": digest("print", number % 2_000),
    }  # fmt: skip
    run: Row = {
        **shared, "id": number, "content_key": digest("run", number), "checkpoint_id": number, "weights_mode": "auto",
        "releases_mode": "bundled", "lane": 0, "priority": -number, "downloads": 0, "state": "done", "fence": 1,
        "deliveries": 1, "attempts": 1, "seconds": 12.0, "peak_rss_mb": 900.0, "versions": {}, "artefacts": [],
        "measurements": {"worst_token_cosine": 0.9991, "cases": 8}, "evidence": {}, "created_at": finished,
        "finished_at": finished,
    }  # fmt: skip
    status: Row = {
        **shared, "checkpoint_id": number, "run_id": number, "supported": passed, "scripted": False,
        "stock_reason": "", "updated_at": finished, "downloads": _model(number)["downloads"],
    }  # fmt: skip
    return run, status, [] if passed else [_failure(number, draw) for _ in range(draw.randint(1, 8))]


def _failure(number: int, draw: random.Random) -> Row:
    op = f"aten.operation_{int(OPS * draw.random() ** 2):02}.default"
    found = {"kind": "unsupported_op", "op": op, "source": "modeling.py:120", "module": "encoder.layer.*", "count": 12}
    more = {"place": "block", "after": False, "message": "the compiler refuses it", "data": found}
    return {"run_id": number, "checkpoint_id": number, **found, **more}
