"""Changes that can be taken back: each is recorded with what was there before, as objects, not as copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from .errors import StockGone

_MISSING = object()


@dataclass(frozen=True)
class Change:
    """One entry of a mapping that was set or dropped: `checked` ones must still hold when they are taken back.

    `order` are the keys before a drop, so that what was dropped returns to its place.
    """

    mapping: dict[Any, Any]
    key: Any
    before: Any
    value: Any
    checked: bool = True
    order: tuple[Any, ...] = ()

    def take_back(self) -> None:
        """What was there before returns, or the entry goes."""
        if self.before is _MISSING:
            self.mapping.pop(self.key, None)
        else:
            self.mapping[self.key] = self.before
        for key in self.order:
            self.mapping[key] = self.mapping.pop(key)

    def put_on(self) -> None:
        """Sets or drops the entry again."""
        if self.value is _MISSING:
            del self.mapping[self.key]
        else:
            self.mapping[self.key] = self.value

    @property
    def moved(self) -> bool:
        """True if somebody else has set the entry since."""
        return self.mapping.get(self.key, _MISSING) is not self.value


class Reversal:
    """A list of changes. Calling it takes them back in reverse order, once; original objects return by identity."""

    def __init__(self) -> None:
        self._steps: list[Change | Callable[[], object]] = []
        self._forgotten = False

    def __call__(self) -> None:
        self._check_kept()
        while self._steps:
            step = self._steps.pop()
            step.take_back() if isinstance(step, Change) else step()

    def forget(self) -> None:
        """Lets go of what was there before, so that its memory is free: from now on nothing can be taken back."""
        self._steps.clear()
        self._forgotten = True

    def _check_kept(self) -> None:
        if self._forgotten:
            raise StockGone("the stock weights were not kept: adapted with keep_stock=False; load the model anew")

    def changes(self) -> list[Change]:
        """The changes in the order they were made, those of nested reversals in their place."""
        found: list[Change] = []
        for step in self._steps:
            if isinstance(step, Reversal):
                found += step.changes()
            elif isinstance(step, Change):
                found.append(step)
        return found

    def moved(self) -> list[Change]:
        """Checked changes that somebody else has overwritten since; the last change of an entry counts."""
        last = {(id(c.mapping), c.key): c for c in self.changes()}
        return [c for c in last.values() if c.checked and c.moved]

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Takes the changes back for a while and puts them on again.

        Steps given to `add` as plain callables stay as they are: they are for what lies outside the model.
        Raises StockGone after `forget`.
        """
        self._check_kept()
        changes = self.changes()
        for change in reversed(changes):
            change.take_back()
        try:
            yield
        finally:
            for change in changes:
                change.put_on()

    def add(self, step: Callable[[], object]) -> None:
        """Records how to take back something that was done elsewhere: another reversal, or what is not in the model."""
        self._steps.append(step)

    def set_attribute(self, owner: Any, name: str, value: Any) -> None:
        """Sets an attribute of the instance only; an attribute that was the class's becomes the class's again."""
        self.set_item(owner.__dict__, name, value)

    def set_parameter(self, module: torch.nn.Module, name: str, value: torch.nn.Parameter) -> None:
        """Replaces a Parameter; the original object comes back."""
        self.set_item(module._parameters, name, value)

    def set_buffer(self, module: torch.nn.Module, name: str, value: torch.Tensor) -> None:
        """Replaces a buffer; the original object comes back. Not checked: models replace buffers themselves."""
        self._set(module._buffers, name, value, checked=False)

    def set_module(self, parent: torch.nn.Module, name: str, child: torch.nn.Module) -> None:
        """Replaces a child module; the original object comes back, in its place."""
        self.set_item(parent._modules, name, child)

    def set_item(self, mapping: dict[str, Any], key: str, value: Any) -> None:
        """Sets `mapping[key]` and keeps what was there, or that there was nothing."""
        self._set(mapping, key, value, checked=True)

    def drop_item(self, mapping: dict[str, Any], key: str) -> None:
        """Takes `mapping[key]` out; it comes back, in its place."""
        self._steps.append(Change(mapping, key, mapping[key], _MISSING, order=tuple(mapping)))
        del mapping[key]

    def hook(self, handle: Any) -> None:
        """Records the handle of a hook that was just registered, to be removed."""
        hooks = handle.hooks_dict_ref()
        self._steps.append(Change(hooks, handle.id, _MISSING, hooks[handle.id], checked=False))

    def _set(self, mapping: dict[Any, Any], key: Any, value: Any, *, checked: bool) -> None:
        self._steps.append(Change(mapping, key, mapping.get(key, _MISSING), value, checked))
        mapping[key] = value
