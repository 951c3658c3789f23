"""What `adapt` returns: the report of what was changed, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from torch import nn

from .reversal import Reversal


@dataclass
class Handle:
    """An adapted model. As a context manager it undoes itself at the end.

    `model` is the same object that was given to `adapt`; while adapted it takes host tensors and returns host tensors.
    """

    model: nn.Module
    facts: dict[str, Any]
    _undo: Reversal = field(repr=False)
    active: bool = True

    def report(self) -> dict[str, Any]:
        """What was changed, why, how exact, with which evidence: plain data for JSON.

        Keys: `adapter` (name, version, digest, origin, profile or None), `device`, `dtype`, `form`, `blocks`,
        `block_kinds`, `host` (what runs on the CPU), `active`, `evidence`, and `patches` with pattern, parameters,
        mathematics, exactness, bound, drafter, targets and digest of each.
        """
        return {**self.facts, "active": self.active}

    def undo(self) -> None:
        """Makes the model stock again, bit for bit, with its original Parameter objects. A second call does nothing."""
        self._undo()
        self.active = False

    def also_undo(self, step: Callable[[], object]) -> None:
        """Takes back one thing more at `undo`, before everything else: for what was set because of the adaptation."""
        self._undo.add(step)

    def __enter__(self) -> Handle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()
