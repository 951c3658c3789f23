"""Every query on requests."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline.requests.errors import UnknownRequest
from pipeline.requests.models import RequestRow
from pipeline.sweeps.models import Sweep


def get_request(session: Session, request_id: str) -> RequestRow:
    """The request with this id. Raises `UnknownRequest`."""
    row = session.get(RequestRow, request_id)
    if row is None:
        raise UnknownRequest(f"There is no request {request_id!r}.")
    return row


def list_requests(session: Session, limit: int = 50) -> list[RequestRow]:
    """The newest requests."""
    return list(session.scalars(select(RequestRow).order_by(RequestRow.created_at.desc()).limit(limit)))


def sweep_of_request(session: Session, request_id: str) -> Sweep | None:
    """The sweep a request caused."""
    return session.scalar(select(Sweep).where(Sweep.request_id == request_id).order_by(Sweep.id.desc()).limit(1))
