"""Takes secrets out of texts, and out of answers what no store accepts. A leaf module: it imports nothing of ours.

An endpoint may send a key back, in an error or in an answer. It is taken out where it arrives, so that no message,
trajectory, log or page ever holds it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

HIDDEN = "[redacted]"
SHORTEST = 6
"""A value shorter than this is no key: taking it out of texts would only spoil them."""

NAMES = re.compile(r"(API_KEY|_TOKEN|_SECRET|PASSWORD|SIGNING_KEY)$")
"""Variables of the environment whose values are secrets."""

SHAPES = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{12,}|hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|xox[abp]-[A-Za-z0-9-]{10,})"
    r"|(?<=Bearer )[A-Za-z0-9._~+/=-]{8,}"
)
"""What looks like a key of a known service, wherever it comes from."""

MAX_DEPTH = 60


class Redactor:
    """Knows the secrets of one process; `text` and `data` give back the same without them."""

    def __init__(self, secrets: tuple[str, ...] = ()) -> None:
        self._secrets = sorted({s for s in secrets if len(s) >= SHORTEST}, key=len, reverse=True)

    def text(self, text: str) -> str:
        """The text without secrets, NUL and lone surrogates, none of which a database accepts."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        clean = SHAPES.sub(HIDDEN, text).replace("\0", "\\0")
        return clean.encode("utf-8", "replace").decode("utf-8")

    def data(self, value: Any, depth: int = 0) -> Any:
        """JSON data with every text in it redacted; what is nested deeper than `MAX_DEPTH` is left out."""
        if isinstance(value, str):
            return self.text(value)
        if depth >= MAX_DEPTH:
            return None
        if isinstance(value, dict):
            return {self.text(str(key)): self.data(item, depth + 1) for key, item in value.items()}
        return [self.data(item, depth + 1) for item in value] if isinstance(value, list | tuple) else value


def redactor_of(api_key: str | None, base_url: str | None = None, environ: Mapping[str, str] | None = None) -> Redactor:
    """Knows the key, a password in the address, and the secrets of the environment."""
    given = os.environ if environ is None else environ
    named = [value for name, value in given.items() if NAMES.search(name)]
    return Redactor((api_key or "", *_in_address(base_url or ""), *named))


def _in_address(url: str) -> tuple[str, ...]:
    try:
        parts = urlsplit(url)
        return (parts.password or "", parts.username or "")
    except ValueError:
        return ()
