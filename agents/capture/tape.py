"""The tape: every operator between the stock model and the placed one, and slices of it back to stock tensors.

A tensor is known by where it lies (storage, offset, shape, stride, dtype), not by its object: `nn.Parameter` and
`.data` make new objects of the same memory. Every write to a storage belongs to the slice of whatever lies in it, in
order; replaying a slice with the same in-place operators therefore gives the state at the end of the tape.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

from .errors import CaptureRefused
from .written import LITERAL_MAX, literal, meta_of, written

LIFTS = frozenset({torch.ops.aten.lift_fresh.default, torch.ops.aten.lift_fresh_copy.default})
"""How a tensor made from a list in the code becomes a fake one."""


class Key(NamedTuple):
    """Where a tensor lies."""

    storage: int
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


def key_of(tensor: Tensor) -> Key:
    """The key of a tensor; equal for every object that is the same view of the same memory."""
    storage = tensor.untyped_storage()._cdata
    return Key(storage, tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)


class Place(NamedTuple):
    """Output number `output` of tape entry `entry` (None if it returned one tensor)."""

    entry: int
    output: int | None


@dataclass(frozen=True)
class Entry:
    """One operator with its arguments and outputs (tensors as keys), the metas of its results, and whether it wrote to
    an argument given by keyword."""

    op: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: Any
    result: Any
    out_argument: bool


class Tape(TorchDispatchMode):
    """Records while it is entered; must be entered inside the fake tensor mode. Keeps every tensor alive.

    What is computed from real tensors alone (lists in the code) is computed; what comes of it is a literal.
    """

    def __init__(self, sources: dict[str, Tensor]) -> None:
        super().__init__()
        self.sources: dict[Key, str] = {}
        for name, tensor in sources.items():
            self.sources.setdefault(key_of(tensor), name)
        self.entries: list[Entry] = []
        self.literals: dict[Key, dict[str, Any]] = {}
        self.places: dict[Key, Place] = {}
        self.writers: dict[int, list[int]] = defaultdict(list)
        self._alive: list[Any] = [sources]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the operator and records it."""
        kwargs = kwargs or {}
        if func not in LIFTS and _is_real(args, kwargs):
            with _disable_current_modes():
                return func(*args, **kwargs)
        self._note_literals(args, kwargs)
        result = func(*args, **kwargs)
        self._record(func, args, kwargs, result)
        return result

    def _note_literals(self, *values: Any) -> None:
        """A real tensor among fakes is a literal: `torch.tensor([...])` in surgery arrives like that."""
        for leaf in tree_leaves(values):
            if isinstance(leaf, Tensor) and not isinstance(leaf, FakeTensor) and key_of(leaf) not in self.literals:
                with _disable_current_modes():
                    self.literals[key_of(leaf)] = literal(leaf)
                self._alive.append(leaf)

    def _record(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        number = len(self.entries)
        written_to, by_keyword = _written_tensors(func, args, kwargs)
        given, named, made = tree_map_only(Tensor, key_of, (args, kwargs, result))
        metas = tree_map_only(Tensor, meta_of, result)
        self.entries.append(Entry(func, given, named, made, metas, by_keyword))
        self._alive.append((args, kwargs, result))
        for tensor in written_to:
            self.writers[tensor.untyped_storage()._cdata].append(number)
        for place, tensor in _outputs(number, result):
            key = key_of(tensor)
            if key not in self.sources and key not in self.literals:
                self.places.setdefault(key, place)

    def admit(self, tensor: Tensor) -> None:
        """A small tensor that export made anew of numbers in the code (`torch.tensor(8.0)`) is a literal.

        Raises CaptureRefused for one that is too large.
        """
        value = tensor.constant if isinstance(tensor, FakeTensor) else tensor
        if value is not None and not self.knows(key_of(tensor)):
            with _disable_current_modes():
                self.literals[key_of(tensor)] = literal(value)
            self._alive.append(tensor)

    def knows(self, key: Key) -> bool:
        """Whether the key is of a stock tensor, a literal or a result."""
        return key in self.sources or key in self.literals or key in self.places

    def slice_for(self, wanted: list[Key]) -> dict[str, Any]:
        """The document section `constants` whose values are `wanted`, in order.

        Raises CaptureRefused for a tensor that does not come from stock tensors and small literals alone.
        """
        return _Slice(self, wanted).section()


def _is_real(*values: Any) -> bool:
    """True if there are tensors and none of them is fake."""
    tensors = [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]
    return bool(tensors) and not any(isinstance(t, FakeTensor) for t in tensors)


def _written_tensors(func: Any, args: Any, kwargs: Any) -> tuple[list[Tensor], bool]:
    """The tensors the operator writes to, and whether one was given by keyword (`out=`)."""
    found: list[Tensor] = []
    by_keyword = False
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        leaves = [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]
        found += leaves
        by_keyword = by_keyword or (bool(leaves) and argument.kwarg_only)
    return found, by_keyword


def _outputs(number: int, result: Any) -> Iterator[tuple[Place, Tensor]]:
    if isinstance(result, Tensor):
        yield Place(number, None), result
    elif isinstance(result, tuple | list):
        yield from ((Place(number, i), r) for i, r in enumerate(result) if isinstance(r, Tensor))


class _Slice:
    """One backward slice: which entries, stock names and literals the wanted tensors rest on."""

    def __init__(self, tape: Tape, wanted: list[Key]) -> None:
        self._tape = tape
        self._wanted = wanted
        self._entries: set[int] = set()
        self._leaves: dict[Key, None] = {}
        self._collect()

    def _collect(self) -> None:
        todo, seen = list(self._wanted), set[Key]()
        while todo:
            key = todo.pop()
            if key in seen:
                continue
            seen.add(key)
            for number in self._entries_of(key):
                if number not in self._entries:
                    self._entries.add(number)
                    entry = self._tape.entries[number]
                    todo += _keys((entry.args, entry.kwargs))

    def _entries_of(self, key: Key) -> list[int]:
        """What makes the tensor, and every write to its storage."""
        tape = self._tape
        writers = tape.writers.get(key.storage, [])
        if key in tape.sources or key in tape.literals:
            self._leaves[key] = None
            return writers
        if key not in tape.places:
            raise CaptureRefused(
                f"a tensor of shape {list(key.shape)} does not come from the stock model's tensors: it may only be "
                f"computed from them and from literals of at most {LITERAL_MAX} elements, by operators"
            )
        return [tape.places[key].entry, *writers]

    def section(self) -> dict[str, Any]:
        stock = sorted((k for k in self._leaves if k in self._tape.sources), key=lambda k: self._tape.sources[k])
        values: dict[Key, int] = {key: number for number, key in enumerate(stock)}
        nodes: list[dict[str, Any]] = []
        for key in self._leaves:
            if key in self._tape.literals:
                values[key] = len(stock) + len(nodes)
                nodes.append(self._tape.literals[key])
        results: dict[int, int] = {}
        for number in sorted(self._entries):
            self._write(number, len(stock), nodes, values, results)
        return {
            "stock": [{"name": self._tape.sources[k], "out": _meta(k)} for k in stock],
            "nodes": nodes,
            "values": [{"ref": self._value(k, len(stock), nodes, values, results)} for k in self._wanted],
        }

    def _write(
        self, number: int, first: int, nodes: list[dict[str, Any]], values: dict[Key, int], results: dict[int, int]
    ) -> None:
        entry = self._tape.entries[number]
        if entry.out_argument:
            raise CaptureRefused(f"{entry.op} writes to a tensor given by keyword (out=); assign the result instead")

        def reference(key: Key) -> dict[str, int]:
            return {"ref": self._value(key, first, nodes, values, results)}

        args = [written(a, reference, Key) for a in entry.args]
        kwargs = {k: written(v, reference, Key) for k, v in entry.kwargs.items()}
        results[number] = first + len(nodes)
        nodes.append({"op": str(entry.op), "args": args, "kwargs": kwargs, "out": entry.result})

    def _value(
        self, key: Key, first: int, nodes: list[dict[str, Any]], values: dict[Key, int], results: dict[int, int]
    ) -> int:
        """The number of a tensor's value; picks it out of a result of several on first use."""
        if key in values:
            return values[key]
        place = self._tape.places[key]
        if place.output is None:
            values[key] = results[place.entry]
            return values[key]
        values[key] = first + len(nodes)
        picked = {"ref": results[place.entry]}
        nodes.append({"op": "getitem", "args": [picked, place.output], "kwargs": {}, "out": _meta(key)})
        return values[key]


def _meta(key: Key) -> list[Any]:
    return [str(key.dtype).removeprefix("torch."), list(key.shape)]


def _keys(value: Any) -> Iterator[Key]:
    found: list[Key] = []
    walk(value, found.append)
    yield from found


def walk(value: Any, note: Callable[[Key], None]) -> None:
    """Calls `note` for every key in nested tuples, lists and dictionaries (a key is itself a tuple)."""
    if isinstance(value, Key):
        note(value)
    elif isinstance(value, dict):
        for item in value.values():
            walk(item, note)
    elif isinstance(value, tuple | list):
        for item in value:
            walk(item, note)
