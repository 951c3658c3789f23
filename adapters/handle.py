"""What `adapt` returns: the report of what was changed, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from torch import nn

from .errors import UndoneOutOfOrder
from .report import Report
from .reversal import Change, Reversal


@dataclass
class Handle:
    """An adapted model. As a context manager it undoes itself at the end.

    `model` is the same object that was given to `adapt`; while adapted it takes host tensors and returns host tensors.
    """

    model: nn.Module
    facts: dict[str, Any]
    _undo: Reversal = field(repr=False)
    active: bool = True

    def report(self) -> Report:
        """What was changed, why, how exact, with which evidence: plain data for JSON; printed, it is a table.

        Keys: `adapter` (name, version, digest, origin, profile or None), `device`, `dtype`, `form`, `blocks`,
        `block_kinds`, `host` (what runs on the CPU), `active`, `evidence`, and `patches` with pattern, parameters,
        mathematics, exactness, bound, drafter, targets, replaced, by, cures and digest of each.
        """
        return Report({**self.facts, "active": self.active})

    def undo(self) -> None:
        """Makes the model stock again, bit for bit, with its original Parameter objects. A second call does nothing.

        Raises UndoneOutOfOrder, and takes nothing back, if something that was set has been changed since.
        """
        moved = self._undo.moved()
        if moved:
            raise UndoneOutOfOrder(
                f"{type(self.model).__name__}: {_place_of(self.model, moved[0])} was changed after the adaptation; "
                "take that change back first, then call undo()"
            )
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


def _place_of(model: nn.Module, change: Change) -> str:
    """`encoder.layer.0.forward`: the entry of the model that a change set."""
    for path, module in model.named_modules():
        if any(change.mapping is part for part in (module.__dict__, module._parameters, module._modules)):
            return f"{path}.{change.key}".lstrip(".")
    return str(change.key)
