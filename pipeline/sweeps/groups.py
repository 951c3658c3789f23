"""Groups: checkpoints whose verdict on synthetic weights is one verdict. One of them is executed, the others follow it.

Two checkpoints are of one group if their configurations differ in nothing but names, vocabulary size and special token
ids, and their sentences are pooled alike. Synthetic weights are drawn from the configuration, so what such a verdict
says of one it says of all; with real weights every checkpoint is executed itself. What a Dense layer
does on the host afterwards reaches no such verdict, nor, for a row that no Hub pins, who may load the weights and what
code lies beside them: only what the row holds is read then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Insert, Select, Update, bindparam, inspect, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session, aliased

from agents.types import canonical
from pipeline.catalogue.entry import CatalogueEntry as Listed
from pipeline.catalogue.entry import WeightsForm
from pipeline.catalogue.folder import pooled_by
from pipeline.database.insert import insert_missing
from pipeline.inspection.digest import graph_fields
from pipeline.sweeps.models import CatalogueEntry, Checkpoint, CheckpointStatus, Model, Sweep
from pipeline.sweeps.repository import is_newest
from pipeline.work.models import Run

TOLD_BY_THE_HUB = ("gated", "custom_code")
"""What decides the inspection of a pinned row, whose files are read at the Hub; of others only the row is read."""
VOCABULARY = frozenset({"vocab_size"})
SPECIAL_TOKENS = ("_token_id", "_token_index")

OWN = ("derived_from", "downloads", "newest")
"""What a status says of its own checkpoint; all else is that of the one that was executed."""

EXECUTED, ELSEWHERE, NEW, REAL = range(4)
"""Who speaks for a group: one of the sweep that was executed on synthetic weights, then one of its group that the sweep
does not list, then one without a status; one with a verdict on its real weights last, for a synthetic one would take
its place."""


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
    entries: Sequence[CatalogueEntry],
    weights_mode: str,
    standing: Mapping[int, int],
    elsewhere: Sequence[Checkpoint] = (),
) -> dict[int, Checkpoint]:
    """For each checkpoint of a snapshot the one that is executed for it.

    Only synthetic weights make groups; then it is the first of its group by `standing` (EXECUTED, NEW or REAL of a
    checkpoint's number) and sweep order. `elsewhere` are checkpoints that the snapshot need not list: the first of a
    group goes before one that would have to be executed. With other weights every checkpoint speaks for itself.
    """
    listed = [entry.checkpoint for entry in entries if entry.checkpoint is not None]
    places = [(standing.get(checkpoint.id, NEW), checkpoint) for checkpoint in listed]
    places += [(ELSEWHERE, checkpoint) for checkpoint in elsewhere]
    first: dict[str, Checkpoint] = {}
    for _, checkpoint in sorted(places, key=lambda place: place[0]):
        first.setdefault(_group_of(checkpoint, weights_mode), checkpoint)
    return {checkpoint.id: first[_group_of(checkpoint, weights_mode)] for checkpoint in listed}


def _group_of(checkpoint: Checkpoint, weights_mode: str) -> str:
    key = checkpoint.group_key if weights_mode == "synthetic" else None
    return key or f"checkpoint {checkpoint.id}"


def standing_on(session: Session, profile: str) -> dict[int, int]:
    """What stands for the checkpoints that have a status of their own on a profile: EXECUTED or REAL."""
    own = select(CheckpointStatus.checkpoint_id, CheckpointStatus.weights)
    own = own.where(CheckpointStatus.profile == profile, CheckpointStatus.derived_from.is_(None))
    return {number: REAL if weights == "real" else EXECUTED for number, weights in session.execute(own)}


def executed_elsewhere(session: Session, sweep: Sweep) -> list[Checkpoint]:
    """Checkpoints of any catalogue whose verdict a sweep may take for those of their groups, the last judged first.

    Theirs was asked for in the same way and in the sweep's environment: nothing has to be executed again for it. A
    request is always about the one model that it names.
    """
    if sweep.weights_mode != "synthetic" or sweep.request_id is not None:
        return []
    asked = (Run.weights_mode, Run.releases_mode, Run.tier, CheckpointStatus.profile, CheckpointStatus.environment)
    same = ("weights_mode", "releases_mode", "tier", "profile", "environment")
    query = _own_verdicts(select(Checkpoint)).where(Checkpoint.group_key.is_not(None))
    query = query.where(*(column == getattr(sweep, name) for column, name in zip(asked, same, strict=True)))
    return list(session.scalars(query.order_by(*LATEST)))


LATEST = (CheckpointStatus.updated_at.desc(), CheckpointStatus.checkpoint_id.desc())


def _own_verdicts(columns: Select[Any]) -> Select[Any]:
    """Checkpoints, their statuses that rest on a run of their own, and these runs."""
    query = columns.select_from(CheckpointStatus).join(Checkpoint, Checkpoint.id == CheckpointStatus.checkpoint_id)
    return query.join(Run, Run.id == CheckpointStatus.run_id).where(CheckpointStatus.derived_from.is_(None))


def follow(session: Session, numbers: Sequence[int]) -> None:
    """Give these checkpoints the verdicts that others of their groups have on synthetic weights, on every profile.

    A checkpoint that has a status on a profile keeps it: this is for those that were just stored.
    """
    columns = (Checkpoint.id, Checkpoint.group_key, Checkpoint.family, Model.downloads, is_newest(Checkpoint))
    query = select(*columns).join(Model, Model.id == Checkpoint.model_id)
    joining = session.execute(query.where(Checkpoint.id.in_(numbers), Checkpoint.group_key.is_not(None))).all()
    told = _told_of(session, {row.group_key for row in joining})
    if not told:
        return
    theirs = select(CheckpointStatus.checkpoint_id, CheckpointStatus.profile)
    judged = {tuple(row) for row in session.execute(theirs.where(CheckpointStatus.checkpoint_id.in_(numbers)))}
    rows, families = [], []
    for number, key, family, downloads, newest in joining:
        for said in told.get(str(key), ()):
            if (number, said.status["profile"]) not in judged:
                own = {"checkpoint_id": number, "downloads": downloads, "newest": bool(newest)}
                rows.append({**said.status, **own})
                families += [{"id": number, "family": said.family}] if said.family != family else []
    insert_missing(session, CheckpointStatus, ["checkpoint_id", "profile"], rows)
    if families:
        session.execute(update(Checkpoint), families)


class _Said(NamedTuple):
    """What is said of a group on one profile: the family of the one that speaks, a status without its `OWN`."""

    family: str | None
    status: dict[str, Any]


def _told_of(session: Session, keys: Collection[str]) -> dict[str, list[_Said]]:
    """By group key, the last verdict on synthetic weights on each profile."""
    copied = _copied_columns()
    values = [getattr(CheckpointStatus, name) for name in copied]
    query = _own_verdicts(select(Checkpoint.group_key, Checkpoint.family, CheckpointStatus.checkpoint_id, *values))
    query = query.where(Checkpoint.group_key.in_(keys), Run.weights_mode == "synthetic").order_by(*LATEST)
    found: dict[str, dict[str, _Said]] = {}
    for key, family, speaker, *status in session.execute(query):
        said = {**dict(zip(copied, status, strict=True)), "derived_from": speaker}
        found.setdefault(key, {}).setdefault(said["profile"], _Said(family, said))
    return {key: list(said.values()) for key, said in found.items()}


def derive(session: Session, *statuses: CheckpointStatus) -> None:
    """Give the others of their groups the statuses of executed checkpoints; a status of their own is left as it is."""
    session.flush()
    connection = session.connection()
    dialect, renamed = connection.dialect.name, 0
    for status in statuses:
        key, family = status.checkpoint.group_key, status.checkpoint.family
        if key is not None:
            renamed += connection.execute(_family_of_group(), {"of_group": key, "its": family}).rowcount
            told = {"speaker": status.checkpoint_id, "of_group": key, "on_profile": status.profile}
            connection.execute(_told_to_group(dialect), told)
    for row in list(session.identity_map.values()):
        if isinstance(row, CheckpointStatus) or (renamed and isinstance(row, Checkpoint)):
            session.expire(row)


@lru_cache(maxsize=1)
def _family_of_group() -> Update:
    """Checkpoints of a group that have another family get its own."""
    others = (Checkpoint.group_key == bindparam("of_group"), Checkpoint.family.is_distinct_from(bindparam("its")))
    table: Any = Checkpoint.__table__
    return update(table).where(*others).values(family=bindparam("its"))


@lru_cache(maxsize=2)
def _told_to_group(dialect: str) -> Insert:
    """The status of a speaker for all others of its group; built once, for a sweep tells some hundred groups."""
    table: Any = CheckpointStatus.__table__
    insert = (sqlite.insert if dialect == "sqlite" else postgresql.insert)(table)
    copied = _copied_columns()
    statement = insert.from_select(["checkpoint_id", *OWN, *copied], _of_the_group(copied))
    newer = {name: statement.excluded[name] for name in (*OWN, *copied)}
    own, where = ["checkpoint_id", "profile"], CheckpointStatus.derived_from.is_not(None)
    return statement.on_conflict_do_update(index_elements=own, set_=newer, where=where)


def _copied_columns() -> Sequence[str]:
    names = [column.key for column in inspect(CheckpointStatus).columns]
    return [name for name in names if name not in ("checkpoint_id", *OWN)]


def _of_the_group(copied: Sequence[str]) -> Select[Any]:
    speaker, other = aliased(CheckpointStatus), aliased(Checkpoint)
    columns = [getattr(speaker, name) for name in copied]
    own = (speaker.checkpoint_id, Model.downloads, is_newest(other))
    query = select(other.id, *own, *columns).join(other, other.id != speaker.checkpoint_id)
    query = query.join(Model, Model.id == other.model_id)
    mine = (speaker.checkpoint_id == bindparam("speaker")) & (speaker.profile == bindparam("on_profile"))
    return query.where(mine, other.group_key == bindparam("of_group"))
