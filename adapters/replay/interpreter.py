"""Runs the nodes of one section on real tensors, one by one. The document has been validated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from .arguments import DTYPES, decode, references, references_of
from .frame import meta
from .operators import SURGERY
from .precision import Precision


class Interpreter:
    """Values by number; each is dropped after its last use. `device` stands for every device that is not the host."""

    def __init__(self, values: Sequence[Any], precision: Precision, device: torch.device) -> None:
        self.values: dict[int, Any] = dict(enumerate(values))
        self._precision = precision
        self._device = device

    def run(
        self,
        nodes: Sequence[dict[str, Any]],
        kept: Sequence[int],
        call: Callable[[dict[str, Any], Any], Any] | None = None,
    ) -> list[Any]:
        """Runs all nodes and returns the values numbered `kept`."""
        first = len(self.values)
        last_use = _last_uses(nodes, kept)
        for number, node in enumerate(nodes):
            self.values[first + number] = self._node(node, call)
            for used in {*_read(node), first + number}:
                if last_use.get(used, -1) <= number:
                    self.values.pop(used, None)
        return [self.values[k] for k in kept]

    def _node(self, node: dict[str, Any], call: Callable[[dict[str, Any], Any], Any] | None) -> Any:
        if "call" in node:
            assert call is not None
            return call(node, [self.values[n] for n in references(node["args"])])
        if node["op"] == "getitem":
            return self.values[node["args"][0]["ref"]][node["args"][1]]
        if node["op"] == "literal":
            return self._precision.tensor(literal_tensor(node))
        args = [self._decoded(a) for a in node["args"]]
        kwargs = {k: self._decoded(v) for k, v in node["kwargs"].items()}
        return self._in_precision(SURGERY[node["op"]](*args, **kwargs), node)

    def _decoded(self, value: Any) -> Any:
        found = decode(value, self.values.__getitem__, self._place, self._precision.dtype)
        return self._precision.number(found)

    def _place(self, name: str) -> torch.device:
        return torch.device("cpu") if name == "cpu" else self._device

    def _in_precision(self, result: Any, node: dict[str, Any]) -> Any:
        """The result in the mapped dtype of what the document says, where an operator decided for itself."""
        if self._precision is Precision.AS_IS or not isinstance(result, Tensor) or not result.is_floating_point():
            return result
        return result.to(self._precision.dtype(DTYPES[meta(node["out"])[0]]))


def literal_tensor(node: dict[str, Any]) -> Tensor:
    """The tensor of a literal node, on the CPU in its own dtype."""
    dtype, shape = meta(node["out"])
    data = [decode(v, int, str, str) for v in node["args"][0]]
    return torch.tensor(data, dtype=DTYPES[dtype]).reshape(shape)


def _read(node: dict[str, Any]) -> list[int]:
    return references(node["args"]) if "call" in node or node["op"] == "literal" else references_of(node)


def _last_uses(nodes: Sequence[dict[str, Any]], kept: Sequence[int]) -> dict[int, int]:
    last = {used: number for number, node in enumerate(nodes) for used in _read(node)}
    return {**last, **dict.fromkeys(kept, len(nodes))}


@contextmanager
def default_dtype(precision: Precision) -> Iterator[None]:
    """Operators that take the default float dtype take the mapped one for the time of the block."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(precision.dtype(before))
    try:
        yield
    finally:
        torch.set_default_dtype(before)
