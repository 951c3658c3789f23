"""Runs a section on fake tensors: every result must have the shape, dtype and place the document says.

No memory is taken. Places are followed by rule, since there is no device here: a result lies where a device argument
says, else where the tensors it reads lie, else on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from . import limits
from .arguments import check_arguments, check_number, decode, pair_arguments, references_of
from .errors import DocumentRefused
from .frame import meta, metas
from .operators import VIEWS, Table

HOST, DEVICE = "cpu", "spyre"


@dataclass
class Value:
    """One numbered value: its fake tensor (or several, as a call returns) and where it lies."""

    tensor: Any
    place: str


@dataclass
class Section:
    """The values of one section as they come to be; `where` names it in refusals."""

    where: str
    table: Table
    values: list[Value]
    byte_limit: int = limits.SECTION_BYTES
    used: int = 0
    seen: list[tuple[str, str]] = field(default_factory=list)
    """Operator and place of each node so far."""

    def run(self, nodes: Sequence[Any], call: Callable[[dict[str, Any], Section], Value] | None = None) -> None:
        """Checks and runs the nodes in order. Raises DocumentRefused, which names the node."""
        for number, node in enumerate(nodes):
            try:
                self._run_node(node, call)
            except DocumentRefused as refused:
                raise DocumentRefused(refused.reason, f"{self.where}, node {number}") from refused

    def value(self, number: Any) -> Value:
        """An earlier value. Raises DocumentRefused for a reference to a later one."""
        if type(number) is not int or not 0 <= number < len(self.values):
            raise DocumentRefused(f"reference {str(number)[:20]} is not to an earlier value")
        return self.values[number]

    def _run_node(self, node: Any, call: Callable[[dict[str, Any], Section], Value] | None) -> None:
        if isinstance(node, dict) and "call" in node and call is not None:
            found = call(node, self)
        else:
            found = self._operator(node)
        self._compare(found, node)
        self.values.append(found)

    def _operator(self, node: Any) -> Value:
        if not isinstance(node, dict) or set(node) != {"op", "args", "kwargs", "out"} or type(node["op"]) is not str:
            raise DocumentRefused("a node has exactly the keys op, args, kwargs and out")
        if node["op"] == "getitem":
            return self._item(node)
        if node["op"] == "literal":
            return self._literal(node)
        if node["op"] not in self.table:
            raise DocumentRefused(f"operator {node['op'][:80]!r} is not allowed here")
        op = self.table[node["op"]]
        check_arguments(op, node["args"], node["kwargs"], self._is_tensor)
        place = self._place(op, node)
        self.seen.append((node["op"], place))
        return Value(self._result(op, node), place)

    def _is_tensor(self, number: int) -> None:
        if not isinstance(self.value(number).tensor, Tensor):
            raise DocumentRefused(f"value {number} is several tensors; pick one with getitem")

    def _result(self, op: Any, node: dict[str, Any]) -> Any:
        args, kwargs = (
            decode(v, lambda n: self.values[n].tensor, lambda _: torch.device(HOST), lambda d: d)
            for v in (node["args"], list(node["kwargs"].values()))
        )
        try:
            result = op(*args, **dict(zip(node["kwargs"], kwargs, strict=True)))
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, AssertionError) as error:
            first = (str(error).splitlines() or [""])[0]
            raise DocumentRefused(f"{node['op']} cannot run: {first[:300]}") from error
        self._charge(result, node["op"])
        return list(result) if isinstance(result, tuple | list) else result

    def _charge(self, result: Any, name: str) -> None:
        if name in VIEWS:
            return
        for tensor in result if isinstance(result, tuple | list) else [result]:
            size = tensor.numel() * tensor.element_size()
            self.used += size
            if size > limits.VALUE_BYTES or self.used > self.byte_limit:
                raise DocumentRefused(f"{name}: {size} bytes, {self.used} in all, are above the limit")

    def _place(self, op: Any, node: dict[str, Any]) -> str:
        named = [v["device"] for _, v in pair_arguments(op, node["args"], node["kwargs"]) if _is_device(v)]
        if named:
            return str(named[0])
        read = [self.values[n] for n in references_of(node)]
        places = {v.place for v in read if v.tensor.ndim} or {v.place for v in read}
        if len(places) > 1:
            raise DocumentRefused(f"{node['op']} reads tensors of the host and of the device")
        return places.pop() if places else HOST

    def _item(self, node: dict[str, Any]) -> Value:
        if len(node["args"]) != 2 or node["kwargs"] or not isinstance(node["args"][0], dict):
            raise DocumentRefused("getitem takes a value and a number")
        source, index = self.value(node["args"][0].get("ref")), node["args"][1]
        if not isinstance(source.tensor, list) or type(index) is not int or not 0 <= index < len(source.tensor):
            raise DocumentRefused("getitem picks nothing that is there")
        return Value(source.tensor[index], source.place)

    def _literal(self, node: dict[str, Any]) -> Value:
        dtype, shape = meta(node["out"])
        if len(node["args"]) != 1 or node["kwargs"] or not isinstance(node["args"][0], list):
            raise DocumentRefused("a literal holds one list of numbers")
        data = node["args"][0]
        tensor = torch.empty(shape, dtype=getattr(torch, dtype))
        if len(data) != tensor.numel() or len(data) > limits.LITERAL_ELEMENTS:
            raise DocumentRefused(f"a literal of {len(data)} elements; at most {limits.LITERAL_ELEMENTS} are allowed")
        kind = "bool" if dtype == "bool" else "number" if tensor.is_floating_point() else "int"
        for item in data:
            check_number(kind, item, "an element of a literal")
        return Value(tensor, HOST)

    def _compare(self, found: Value, node: dict[str, Any]) -> None:
        tensors = found.tensor if isinstance(found.tensor, list) else [found.tensor]
        declared = metas(node["out"])
        actual = [(str(t.dtype).removeprefix("torch."), tuple(t.shape)) for t in tensors]
        if declared != actual:
            raise DocumentRefused(f"the result is {actual}, the document says {declared}"[:400])


def _is_device(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"device"}


def fake(value: Any) -> Tensor:
    """An empty tensor of a meta; call it inside a fake tensor mode."""
    dtype, shape = meta(value)
    return torch.empty(shape, dtype=getattr(torch, dtype))
