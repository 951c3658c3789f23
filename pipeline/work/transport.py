"""Celery's filesystem transport with messages that appear whole: a reader never finds a half-written file.

The transport that ships with kombu creates the file first and writes it afterwards, so that a worker that polls in
between reads an empty message and stops. Here the message is written under another name and renamed.
"""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Any

from kombu.exceptions import ChannelError
from kombu.transport import filesystem
from kombu.utils.json import dumps


class Channel(filesystem.Channel):
    """As the base, with an atomic `_put`."""

    def _put(self, queue: Any, payload: Any, **_kwargs: Any) -> None:  # type: ignore[override]
        folder = Path(self.data_folder_out)
        name = f"{round(time.time() * 1000)}_{uuid.uuid4()}.{queue}.msg"
        part = folder / f"{name}.part"
        try:
            part.write_text(dumps(payload))
            part.replace(folder / name)
        except OSError as error:
            raise ChannelError(f"Cannot add {name!r} to {str(folder)!r}: {error.strerror}") from error


class Transport(filesystem.Transport):
    """The embedded broker's transport."""

    Channel = Channel
