"""Keeping what a card made of evidence, and listing it."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Session

from pipeline.database.unit_of_work import database_now
from pipeline.execution.replay_evidence import Replayed
from pipeline.hardware import repository
from pipeline.hardware.models import HardwareVerdict

STACK = ("torch_spyre", "torch", "transformers")


def keep(session: Session, address: str, document: dict[str, Any], done: Replayed) -> HardwareVerdict:
    """Stores the replay of the evidence at `address`; a second replay is a second row."""
    row = HardwareVerdict(
        document=address, model=str(document["checkpoint"].get("model"))[:200],
        profile=str(document["environment"]["profile"]), simulated=str(document["verdict"]["outcome"]),
        outcome=done.outcome, at=database_now(session), versions=versions_here(),
        data={"verdict": done.verdict, **done.to_dict()},
    )  # fmt: skip
    session.add(row)
    session.flush()
    return row


def versions_here() -> dict[str, str | None]:
    """Versions of the card's stack; None for what is not installed as a distribution."""
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str | None] = {}
    for name in STACK:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def summaries(session: Session) -> list[dict[str, Any]]:
    """Every hardware verdict, newest first, beside the simulator's outcome for the same evidence."""
    names = ("id", "document", "model", "profile", "simulated", "outcome", "versions")
    rows = repository.all_verdicts(session)
    return [{**{n: getattr(row, n) for n in names}, "at": row.at.isoformat()} for row in rows]
