"""Every query on hardware verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline.hardware.models import HardwareVerdict


def all_verdicts(session: Session) -> Sequence[HardwareVerdict]:
    """Every verdict, newest first."""
    return session.scalars(select(HardwareVerdict).order_by(HardwareVerdict.id.desc())).all()
