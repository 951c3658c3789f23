"""Every query on adapters."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session, defer

from pipeline.releases.errors import UnknownAdapter
from pipeline.releases.models import Adapter, AdapterState, Origin


def get_adapter(session: Session, adapter_id: int) -> Adapter:
    """The adapter with this number. Raises `UnknownAdapter`."""
    adapter = session.get(Adapter, adapter_id)
    if adapter is None:
        raise UnknownAdapter(f"There is no adapter {adapter_id}.")
    return adapter


def lock_adapter(session: Session, adapter_id: int) -> Adapter:
    """The adapter, locked until the transaction ends, as it is now. Raises `UnknownAdapter`."""
    query = select(Adapter).where(Adapter.id == adapter_id).with_for_update().execution_options(populate_existing=True)
    return session.scalar(query) or get_adapter(session, adapter_id)


def usable_adapters(session: Session, profile: str, releases_mode: str) -> list[Adapter]:
    """Adapters that may be used on `profile`, the preferred first: service releases, then bundled, newest first.

    With `releases_mode` "none" the bundled ones are left out.
    """
    query = select(Adapter).options(defer(Adapter.manifest))  # large, and asked for at every stage
    query = query.where(Adapter.profile == profile, Adapter.state == AdapterState.RELEASED)
    if releases_mode == "none":
        query = query.where(Adapter.origin == Origin.SERVICE)
    query = query.order_by((Adapter.origin == Origin.BUNDLED), Adapter.version.desc(), Adapter.id.desc())
    return list(session.scalars(query))


def list_adapters(session: Session) -> list[Adapter]:
    """All adapters, newest first."""
    return list(session.scalars(select(Adapter).order_by(Adapter.id.desc())))


def next_version(session: Session, name: str) -> int:
    """The version the next release under `name` gets."""
    return (session.scalar(select(func.max(Adapter.version)).where(Adapter.name == name)) or 0) + 1
