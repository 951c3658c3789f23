"""Groups: checkpoints whose verdict on synthetic weights is one verdict. One of them is executed, the others follow it.

Two checkpoints are of one group if their configurations differ in nothing but names, vocabulary size and special token
ids, and their sentences are pooled alike. Synthetic weights are drawn from the configuration, so what such a verdict
says of one it says of all; with real weights every checkpoint is executed itself. What a Dense layer
does on the host afterwards reaches no such verdict, nor, for a row that no Hub pins, who may load the weights and what
code lies beside them: only what the row holds is read then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import inspect, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session, aliased

from agents.types import canonical
from pipeline.catalogue.entry import CatalogueEntry as Listed
from pipeline.catalogue.entry import WeightsForm
from pipeline.catalogue.folder import pooled_by
from pipeline.inspection.digest import graph_fields
from pipeline.sweeps.models import CatalogueEntry, Checkpoint, CheckpointStatus, Model
from pipeline.sweeps.repository import is_newest

TOLD_BY_THE_HUB = ("gated", "custom_code")
"""What decides the inspection of a pinned row, whose files are read at the Hub; of others only the row is read."""
VOCABULARY = frozenset({"vocab_size"})
SPECIAL_TOKENS = ("_token_id", "_token_index")

OWN = ("derived_from", "downloads", "newest")
"""What a status says of its own checkpoint; all else is that of the one that was executed."""

EXECUTED, NEW, REAL = range(3)
"""Who speaks for a group: one that was executed on synthetic weights before one without a status; one with a verdict on
its real weights last, for a synthetic one would take its place."""


def group_key(entry: Listed) -> str | None:
    """sha256 (64 hex) of what decides a verdict on synthetic weights; None for a row without a configuration."""
    if not entry.config:
        return None
    dtype = entry.config.get("dtype") or entry.config.get("torch_dtype")
    facts = [str(entry.weights_form is WeightsForm.ADAPTER), pooled_by(entry.pooling)]
    facts += [str(getattr(entry, name)) for name in TOLD_BY_THE_HUB] if entry.revision is not None else []
    return hashlib.sha256(canonical([_shape(graph_fields(entry.config)), dtype, facts])).hexdigest()


def _shape(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _shape(value) if isinstance(value, Mapping) else value
        for key, value in config.items()
        if key not in VOCABULARY and not key.endswith(SPECIAL_TOKENS)
    }


def speakers(
    entries: Sequence[CatalogueEntry], weights_mode: str, standing: Mapping[int, int]
) -> dict[int, CatalogueEntry]:
    """For each checkpoint of a snapshot the entry that is executed for it.

    Only synthetic weights make groups; then it is the first of its group by `standing` (EXECUTED, NEW or REAL of a
    checkpoint's number) and sweep order. With other weights every checkpoint speaks for itself.
    """
    grouped = {entry: _group_of(entry.checkpoint, weights_mode) for entry in entries if entry.checkpoint is not None}
    first: dict[str, CatalogueEntry] = {}
    for entry in sorted(grouped, key=lambda entry: standing.get(entry.checkpoint_id or 0, NEW)):
        first.setdefault(grouped[entry], entry)
    return {entry.checkpoint_id: first[group] for entry, group in grouped.items() if entry.checkpoint_id is not None}


def _group_of(checkpoint: Checkpoint, weights_mode: str) -> str:
    key = checkpoint.group_key if weights_mode == "synthetic" else None
    return key or f"checkpoint {checkpoint.id}"


def standing_on(session: Session, profile: str) -> dict[int, int]:
    """What stands for the checkpoints that have a status of their own on a profile: EXECUTED or REAL."""
    own = select(CheckpointStatus.checkpoint_id, CheckpointStatus.weights)
    own = own.where(CheckpointStatus.profile == profile, CheckpointStatus.derived_from.is_(None))
    return {number: REAL if weights == "real" else EXECUTED for number, weights in session.execute(own)}


def derive(session: Session, status: CheckpointStatus) -> None:
    """Give the others of its group the status of an executed checkpoint; a status of their own is left as it is."""
    key = status.checkpoint.group_key
    if key is None:
        return
    family = status.checkpoint.family
    others = (Checkpoint.group_key == key, Checkpoint.family.is_distinct_from(family))
    session.execute(update(Checkpoint).where(*others).values(family=family))
    dialect = session.get_bind().dialect.name
    insert = (sqlite.insert if dialect == "sqlite" else postgresql.insert)(CheckpointStatus)
    copied = _copied_columns()
    columns = ["checkpoint_id", *OWN, *copied]
    statement = insert.from_select(columns, _of_the_group(status, key, copied))
    newer = {name: statement.excluded[name] for name in (*OWN, *copied)}
    own = ["checkpoint_id", "profile"]
    where = CheckpointStatus.derived_from.is_not(None)
    session.execute(statement.on_conflict_do_update(index_elements=own, set_=newer, where=where))
    session.expire_all()


def _copied_columns() -> Sequence[str]:
    names = [column.key for column in inspect(CheckpointStatus).columns]
    return [name for name in names if name not in ("checkpoint_id", *OWN)]


def _of_the_group(status: CheckpointStatus, key: str, copied: Sequence[str]) -> Any:
    speaker, other = aliased(CheckpointStatus), aliased(Checkpoint)
    columns = [getattr(speaker, name) for name in copied]
    own = (speaker.checkpoint_id, Model.downloads, is_newest(other))
    query = select(other.id, *own, *columns).join(other, other.id != speaker.checkpoint_id)
    query = query.join(Model, Model.id == other.model_id)
    mine = (speaker.checkpoint_id == status.checkpoint_id) & (speaker.profile == status.profile)
    return query.where(mine, other.group_key == key)
