"""The one Celery task: a message names a run, the row says what to do. Safe to deliver twice."""

from __future__ import annotations

from pipeline.work.broker import TASK_LIMIT_S
from pipeline.work.celery_app import app
from pipeline.work.worker import work_on


@app.task(name="pipeline.work.run_stage", acks_late=True, ignore_result=True, time_limit=TASK_LIMIT_S)  # type: ignore[untyped-decorator]
def run_stage(run_id: int) -> None:
    """One stage of one subject. The lease decides who works; a message for a run that is done does nothing."""
    work_on(run_id)
