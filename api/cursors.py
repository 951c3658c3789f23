"""Cursors: where a page of a list ended, opaque to callers, strict when read back. Imports only our errors."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, NamedTuple

from api.errors import BadCursor

MAX_ID = 2**63 - 1
Value = int | str | datetime | None


class Cursor(NamedTuple):
    """The order of the list, the value of the last row in it (None where it has none), and the row's id."""

    order: str
    value: Value
    id: int

    def encode(self) -> str:
        """The text handed out."""
        value = self.value.isoformat() if isinstance(self.value, datetime) else self.value
        text = json.dumps([self.order, value, self.id], separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MAX_ID:
        raise ValueError(value)
    return value


def _text(value: Any) -> str:
    if type(value) is not str or "\0" in value:
        raise ValueError(value)
    return value


def _moment(value: Any) -> datetime:
    found = datetime.fromisoformat(_text(value))
    if found.tzinfo is None:
        raise ValueError(value)
    return found


READERS: dict[type, Callable[[Any], Value]] = {
    int: _number,
    str: _text,
    datetime: _moment,
}


def decode(text: str, orders: Collection[str], kind: type, *, nullable: bool = False) -> Cursor:
    """The cursor in `text`, of one of these orders and with a value of `kind`. Raises `BadCursor` for any other."""
    try:
        found, value, number = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, TypeError, binascii.Error, RecursionError) as error:
        raise BadCursor("The cursor cannot be read: take `next` from an answer of this list.") from error
    try:
        if found not in orders:
            raise ValueError(found)
        return Cursor(_text(found), None if nullable and value is None else READERS[kind](value), _number(number))
    except ValueError as error:
        message = "The cursor belongs to another list or order: take `next` from an answer of this list."
        raise BadCursor(message) from error
