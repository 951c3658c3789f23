"""How a receiver knows that a callback is ours: HMAC-SHA256 over its time and body, with a secret of each client.

The secrets are derived from one key in a file outside the database, so that no secret is stored and a copy of the
database signs nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from pipeline.errors import EnvironmentProblem
from pipeline.settings import Settings

SIGNATURE, TIMESTAMP, DELIVERY = "X-Spyre-Signature", "X-Spyre-Timestamp", "X-Spyre-Delivery"
KEY_BYTES = 32


def client_secret(settings: Settings, principal_id: int | None) -> str:
    """The secret of a client (None: of nobody in particular), as text. Raises `EnvironmentProblem`."""
    return hmac.new(_key(settings), f"client {principal_id}".encode(), hashlib.sha256).hexdigest()


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """What the header says: `v1=` and the HMAC of `TIMESTAMP.BODY` in hexadecimal."""
    return "v1=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def _key(settings: Settings) -> bytes:
    path = settings.webhook_key or settings.data_dir / "keys" / "webhook-key"
    if not path.exists() and settings.webhook_key is None:
        _make(path)
    try:
        key = path.read_bytes()
    except OSError as error:
        raise EnvironmentProblem(f"The key of callbacks {path} cannot be read: {error.strerror}.") from error
    if len(key) < KEY_BYTES:
        raise EnvironmentProblem(f"The key of callbacks {path} is shorter than {KEY_BYTES} bytes: make a new one.")
    return key


def _make(path: Path) -> None:
    """Of two processes one wins, and both read its key."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        os.link(part, path)
    except FileExistsError:
        pass
    finally:
        part.unlink()
