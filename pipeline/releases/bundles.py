"""Signed bundles of released adapters, and the signed list of those withdrawn."""

from __future__ import annotations

import hashlib
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy.orm import Session

from agents.types import canonical
from pipeline.database.unit_of_work import database_now, reading
from pipeline.errors import BadInput, EnvironmentProblem
from pipeline.releases import repository
from pipeline.releases.errors import AlreadyWithdrawn
from pipeline.releases.models import Adapter, AdapterState
from pipeline.releases.signing import public_pem, signing_key
from pipeline.settings import Settings
from pipeline.work.process import run_child

CHILD_S, CHILD_MB = 120.0, 2_048


def bundle_of(session: Session, adapter_id: int, key: Ed25519PrivateKey) -> bytes:
    """The signed bundle of an adapter. Raises UnknownAdapter, AlreadyWithdrawn, BadInput for a demonstration."""
    from adapters.releases.bundle import installed_versions, locked_digests
    from adapters.releases.manifest import manifest_from_dict
    from adapters.releases.signed import BUNDLE, seal
    from adapters.releases.trust import fingerprint_of

    adapter = exportable(session, adapter_id)
    manifest = manifest_from_dict(adapter.manifest)
    payload = {
        "manifest": manifest.to_dict(),
        "lock": {"digests": locked_digests(manifest), "versions": installed_versions()},
        "withdrawals": withdrawal_list(session, key).decode(),
    }
    return seal(BUNDLE, payload, key, fingerprint_of(key.public_key()))


def exportable(session: Session, adapter_id: int) -> Adapter:
    """The adapter, if it may leave. Raises UnknownAdapter, AlreadyWithdrawn, BadInput for a demonstration."""
    adapter = repository.get_adapter(session, adapter_id)
    if adapter.state == AdapterState.WITHDRAWN:
        raise AlreadyWithdrawn(f"Adapter {adapter_id} is withdrawn ({adapter.withdrawn_reason}): it is not exported.")
    if adapter.scripted:
        raise BadInput(f"Adapter {adapter_id} was drafted by the scripted endpoint: it is a demonstration only.")
    return adapter


def withdrawal_list(session: Session, key: Ed25519PrivateKey) -> bytes:
    """The signed list of every withdrawn adapter. Its serial is the database's clock: a newer list has a higher one."""
    from adapters.releases.signed import WITHDRAWALS, seal
    from adapters.releases.trust import fingerprint_of

    payload = {"serial": _serial(database_now(session)), "withdrawn": _withdrawn(session)}
    return seal(WITHDRAWALS, payload, key, fingerprint_of(key.public_key()))


def _withdrawn(session: Session) -> list[dict[str, Any]]:
    rows = (a for a in repository.list_adapters(session) if a.state == AdapterState.WITHDRAWN)
    return [{"digest": a.digest, "name": a.name, "version": str(a.version), "reason": a.withdrawn_reason} for a in rows]


def _serial(now: datetime) -> int:
    """Microseconds since 1970."""
    aware = now if now.tzinfo is not None else now.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1_000_000)


def bundle_for_download(adapter_id: int, settings: Settings) -> bytes:
    """The signed bundle of an adapter, made by a child: what checks a manifest imports torch, and an API does not.

    It is made once per adapter, list of withdrawals and key, and kept in the data directory. Raises as `bundle_of`.
    """
    key = signing_key(settings)
    with reading() as session:
        adapter = exportable(session, adapter_id)
        name = hashlib.sha256(canonical([adapter.digest, _withdrawn(session), public_pem(key).decode()])).hexdigest()
    path = settings.data_dir / "bundles" / f"{name}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        _make_in_child(adapter_id, path)
    return path.read_bytes()


def _make_in_child(adapter_id: int, path: Path) -> None:
    argv = [sys.executable, "-m", "pipeline.releases.export_child", str(adapter_id), str(path)]
    done = run_child(argv, timeout_s=CHILD_S, memory_mb=CHILD_MB, env=os.environ)
    if not done.ok:
        raise EnvironmentProblem(f"The bundle of adapter {adapter_id} could not be made: {done.reason}.")
