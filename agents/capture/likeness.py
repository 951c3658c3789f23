"""Blocks that are alike: the same operators on the same values, told apart only by the tensors they hold.

A model calls dozens of blocks of one kind, and exporting one costs more than running it on fake tensors. Two calls
whose recorded operators agree in everything but the memory of what they hold are one graph; the second call's tensors
are found by their place in the record. Nothing is taken from names or classes, which drafted code may give at will.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from .calls import Span
from .tape import Key, Tape, key_of


@dataclass
class Record:
    """What a call did: `text` is equal for calls that are alike, `storages` is where its numbers lie."""

    text: Hashable
    storages: list[int] = field(default_factory=list)

    def key_in(self, other: Record, key: Key) -> Key | None:
        """The key that stands in the other call, which is alike, where `key` stands in this one; None if nowhere."""
        if key.storage not in self.storages:
            return None
        return key._replace(storage=other.storages[self.storages.index(key.storage)])


class _Place(NamedTuple):
    """A key with its storage as a number, in order of appearance."""

    number: int
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    content: str


def record_of(tape: Tape, span: Span, given: Sequence[Tensor], returned: Sequence[Tensor]) -> Record:
    """The record of one call: what it was given, every operator with its arguments and results, what it returned.

    A literal counts with its values, any other tensor of outside with its shape and layout only.
    """
    numbers: dict[int, int] = {}

    def place(key: Key) -> _Place:
        number = numbers.setdefault(key.storage, len(numbers))
        literal = tape.literals.get(key)
        content = json.dumps(literal, sort_keys=True) if literal is not None else ""
        return _Place(number, key.offset, key.shape, key.stride, str(key.dtype), content)

    def placed(value: Any) -> Hashable:
        return _hashable(value, place)

    text = [placed([key_of(t) for t in given])]
    entries = tape.entries[span.first : span.last]
    text += [(str(e.op), placed(e.args), placed(e.kwargs), placed(e.outputs)) for e in entries]
    text.append(placed([key_of(t) for t in returned]))
    return Record(tuple(text), list(numbers))


def _hashable(value: Any, place: Any) -> Hashable:
    if isinstance(value, Key):
        return place(value)  # type: ignore[no-any-return]
    if isinstance(value, Mapping):
        return tuple((k, _hashable(v, place)) for k, v in sorted(value.items()))
    if isinstance(value, tuple | list):
        return tuple(_hashable(v, place) for v in value)
    return (type(value).__name__, repr(value))
