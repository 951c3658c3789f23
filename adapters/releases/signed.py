"""The envelope of what a factory signs: the exact bytes of a JSON payload, the signer's fingerprint, one signature.

    {"format": "spyre-bundle-1", "signer": "sha256:...", "payload": "<base64>", "signature": "<base64>"}

The signature is Ed25519 over the format's name, a line feed and the payload's bytes; so a withdrawal list can never be
read as a bundle. Nothing of the payload is parsed before the signature holds.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, NamedTuple, Protocol

from ..digests import canonical
from ..errors import BundleTampered
from .trust import Trust

BUNDLE, WITHDRAWALS, HANDOVER = "spyre-bundle-1", "spyre-withdrawals-1", "spyre-handover-1"
MAX_BYTES = 8 * 1024 * 1024
KEYS = {"format", "signer", "payload", "signature"}


class Signed(NamedTuple):
    """A payload whose signature holds, and who signed it."""

    signer: str
    payload: dict[str, Any]


class SigningKey(Protocol):
    """What signing needs of a private key."""

    def sign(self, data: bytes, /) -> bytes:
        """The signature of the bytes."""


def seal(kind: str, payload: dict[str, Any], key: SigningKey, fingerprint: str) -> bytes:
    """The envelope around a payload, signed with `key`."""
    content = canonical(payload)
    values = {
        "format": kind,
        "signer": fingerprint,
        "payload": base64.b64encode(content).decode(),
        "signature": base64.b64encode(key.sign(_signed_bytes(kind, content))).decode(),
    }
    return (json.dumps(values, indent=1) + "\n").encode()


def unseal(document: bytes, kind: str, trust: Trust) -> Signed:
    """The payload of an envelope. Raises BundleTampered or UnknownSigner; then nothing of it was used."""
    values = _envelope(document, kind)
    content, signature = (_decoded(values[name], name) for name in ("payload", "signature"))
    trust.check(values["signer"], signature, _signed_bytes(kind, content))
    return Signed(values["signer"], _object(content, "payload"))


def _signed_bytes(kind: str, content: bytes) -> bytes:
    return kind.encode() + b"\n" + content


def _envelope(document: bytes, kind: str) -> dict[str, str]:
    if len(document) > MAX_BYTES:
        raise BundleTampered(f"the file is larger than {MAX_BYTES} bytes; it is no {kind}")
    values = _object(document, "file")
    if set(values) != KEYS or not all(isinstance(v, str) for v in values.values()):
        raise BundleTampered(f"the file does not have exactly the keys {sorted(KEYS)}; it is no {kind}")
    if values["format"] != kind:
        raise BundleTampered(f"the file is a {values['format'][:40]!r}, not a {kind}; give the right file")
    return values


def _object(text: bytes, what: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BundleTampered(f"the {what} is not JSON; get the file again") from error
    if not isinstance(values, dict):
        raise BundleTampered(f"the {what} is not a JSON object; get the file again")
    return values


def _decoded(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BundleTampered(f"the {what} is not base64; get the file again") from error
