"""Changes that can be taken back: each is recorded with what was there before, as objects, not as copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_MISSING = object()


class Reversal:
    """A list of changes. Calling it takes them back in reverse order, once; original objects return by identity."""

    def __init__(self) -> None:
        self._steps: list[Callable[[], object]] = []

    def __call__(self) -> None:
        while self._steps:
            self._steps.pop()()

    def add(self, step: Callable[[], object]) -> None:
        """Records how to take back something that was done elsewhere."""
        self._steps.append(step)

    def set_attribute(self, owner: Any, name: str, value: Any) -> None:
        """Sets an attribute of the instance only; an attribute that was the class's becomes the class's again."""
        self.set_item(owner.__dict__, name, value)

    def set_parameter(self, module: torch.nn.Module, name: str, value: torch.nn.Parameter) -> None:
        """Replaces a Parameter; the original object comes back."""
        self.set_item(module._parameters, name, value)

    def set_buffer(self, module: torch.nn.Module, name: str, value: torch.Tensor) -> None:
        """Replaces a buffer; the original object comes back."""
        self.set_item(module._buffers, name, value)

    def set_module(self, parent: torch.nn.Module, name: str, child: torch.nn.Module) -> None:
        """Replaces a child module; the original object comes back, in its place."""
        self.set_item(parent._modules, name, child)

    def set_item(self, mapping: dict[str, Any], key: str, value: Any) -> None:
        """Sets `mapping[key]` and keeps what was there, or that there was nothing."""
        before = mapping.get(key, _MISSING)
        mapping[key] = value
        self._steps.append(lambda: _restore(mapping, key, before))

    def drop_item(self, mapping: dict[str, Any], key: str) -> None:
        """Takes `mapping[key]` out; it comes back, in its place."""
        before = dict(mapping)
        del mapping[key]
        self._steps.append(lambda: _refill(mapping, before))

    def hook(self, handle: Any) -> None:
        """Records a hook's handle, to be removed."""
        self._steps.append(handle.remove)


def _refill(mapping: dict[str, Any], before: dict[str, Any]) -> None:
    mapping.clear()
    mapping.update(before)


def _restore(mapping: dict[str, Any], key: str, before: Any) -> None:
    if before is _MISSING:
        mapping.pop(key, None)
    else:
        mapping[key] = before
