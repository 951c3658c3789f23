"""Cursors: where a page of a list ended, opaque to callers, strict when read back. Imports only our errors."""

from __future__ import annotations

import base64
import binascii
import json
from typing import NamedTuple

from api.errors import BadCursor

MAX_ID = 2**63 - 1


class Cursor(NamedTuple):
    """The sort of the list, the sort value of the last row, and its id."""

    sort: str
    value: int | str
    id: int

    def encode(self) -> str:
        """The text handed out."""
        return base64.urlsafe_b64encode(json.dumps(list(self), separators=(",", ":")).encode()).decode().rstrip("=")


def decode(text: str, sort: str) -> Cursor:
    """The cursor in `text`. Raises `BadCursor` unless this list, sorted so, could have handed it out."""
    try:
        found_sort, value, number = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, TypeError, binascii.Error, RecursionError) as error:
        raise BadCursor("The cursor cannot be read: take `next` from an answer of this list.") from error
    wanted = str if sort == "name" else int
    fits = found_sort == sort and type(value) is wanted and type(number) is int
    if not fits or not 0 <= number <= MAX_ID or (wanted is int and not 0 <= int(value) <= MAX_ID):
        raise BadCursor("The cursor belongs to another list or order: take `next` from an answer of this list.")
    return Cursor(sort, value, number)
