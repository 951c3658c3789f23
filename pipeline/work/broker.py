"""The broker's settings: the filesystem transport under the data directory, or the one that is configured."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from pipeline.database.errors import DataDirUnusable
from pipeline.settings import Settings

POLL_S = 0.1
QUEUE = "stages"
ALIAS = "spyrefiles"
TRANSPORT = "pipeline.work.transport:Transport"
TASKS_PER_PROCESS = 200
PROCESS_LIMIT_KB = 1_000_000
"""A pool process is replaced after so many stages, or once it has grown so large; models run in its children."""
TASK_LIMIT_S = 1_800
"""Above the longest stage's own limit: the child is ended first, by us, with a reason."""


def is_embedded(settings: Settings) -> bool:
    """True if messages travel through files under the data directory."""
    return settings.broker_url is None


def broker_folder(settings: Settings) -> Path:
    """Where the embedded broker keeps its messages."""
    return settings.data_dir / "broker"


def prepare_broker(settings: Settings) -> None:
    """Make the embedded broker's folders; nothing to do for another broker. Raises `DataDirUnusable`."""
    if not is_embedded(settings):
        return
    try:
        for name in ("messages", "control", "processed"):
            (broker_folder(settings) / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataDirUnusable(
            f"Cannot make the broker's folders under {settings.data_dir}: {error.strerror}."
        ) from error


def empty_broker(settings: Settings) -> None:
    """Throw away every message of the embedded broker: the rows know what is to be done."""
    if is_embedded(settings):
        for name in ("messages", "control"):
            shutil.rmtree(broker_folder(settings) / name, ignore_errors=True)
    prepare_broker(settings)


def celery_settings(settings: Settings) -> dict[str, Any]:
    """Celery's configuration: no results, late acknowledgement, one message at a time per slot."""
    return {
        "broker_url": f"{ALIAS}://" if is_embedded(settings) else settings.broker_url,
        "broker_transport_options": _transport_options(settings),
        "broker_connection_retry_on_startup": True,
        "task_ignore_result": True,
        "task_acks_late": True,
        "task_reject_on_worker_lost": False,
        "task_default_queue": QUEUE,
        "task_serializer": "json",
        "accept_content": ["json"],
        "task_time_limit": TASK_LIMIT_S,
        "worker_prefetch_multiplier": 1,
        "worker_max_tasks_per_child": TASKS_PER_PROCESS,
        "worker_max_memory_per_child": PROCESS_LIMIT_KB,
        "worker_hijack_root_logger": False,
        "enable_utc": True,
    }


def _transport_options(settings: Settings) -> dict[str, Any]:
    if not is_embedded(settings):
        return {"visibility_timeout": 2 * TASK_LIMIT_S}
    folder = broker_folder(settings)
    return {
        "data_folder_in": str(folder / "messages"),
        "data_folder_out": str(folder / "messages"),
        "control_folder": str(folder / "control"),
        "processed_folder": str(folder / "processed"),
        "store_processed": False,
        "polling_interval": POLL_S,
    }
