"""Signed bundles of released adapters, and the signed list of those withdrawn."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy.orm import Session

from pipeline.database.unit_of_work import database_now
from pipeline.errors import BadInput
from pipeline.releases import repository
from pipeline.releases.errors import AlreadyWithdrawn
from pipeline.releases.models import AdapterState


def bundle_of(session: Session, adapter_id: int, key: Ed25519PrivateKey) -> bytes:
    """The signed bundle of an adapter. Raises UnknownAdapter, AlreadyWithdrawn, BadInput for a demonstration."""
    from adapters.releases.bundle import installed_versions, locked_digests
    from adapters.releases.manifest import manifest_from_dict
    from adapters.releases.signed import BUNDLE, seal
    from adapters.releases.trust import fingerprint_of

    adapter = repository.get_adapter(session, adapter_id)
    if adapter.state == AdapterState.WITHDRAWN:
        raise AlreadyWithdrawn(f"Adapter {adapter_id} is withdrawn ({adapter.withdrawn_reason}): it is not exported.")
    if adapter.scripted:
        raise BadInput(f"Adapter {adapter_id} was drafted by the scripted endpoint: it is a demonstration only.")
    manifest = manifest_from_dict(adapter.manifest)
    payload = {
        "manifest": manifest.to_dict(),
        "lock": {"digests": locked_digests(manifest), "versions": installed_versions()},
        "withdrawals": withdrawal_list(session, key).decode(),
    }
    return seal(BUNDLE, payload, key, fingerprint_of(key.public_key()))


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
