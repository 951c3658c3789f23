"""One document per case: the stock model of a config, patched or not, as data."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode

from .apply import place_patched
from .calls import Body, Packed, Site, opaque_calls, record_calls
from .case import DTYPES, Case
from .device import pretend_device
from .errors import CaptureRefused
from .graphs import Exported, export, write_graph
from .likeness import Record, record_of
from .masks import masks_by_broadcast
from .run import hidden_of
from .stock import config_of, fake_stock, stock_tensors
from .tape import Key, Tape, key_of
from .written import meta_of

VERSION = 1


class Whole(nn.Module):
    """The model with its host parts as a function of named host tensors to the last hidden state."""

    def __init__(self, model: nn.Module, runner: Any) -> None:
        super().__init__()
        self.model = model
        self._run = runner

    def forward(self, **inputs: Tensor) -> Tensor:
        """[batch, length, width] on the host."""
        return hidden_of(self._run(**inputs))


def capture_patched(
    config: dict[str, Any], patches: Sequence[Mapping[str, Any]], cases: Sequence[Case]
) -> list[dict[str, Any]]:
    """The documents of the patched model, placed on a pretended device. Patches of drafted code run right here.

    One placed model serves all cases of a dtype. Raises CaptureRefused; patches raise errors of their own.
    """
    device = pretend_device()

    def capture(dtype: str) -> _Capture:
        return _Capture(config, lambda model: place_patched(model, patches, device, DTYPES[dtype]))

    captures = {dtype: capture(dtype) for dtype in dict.fromkeys(case.dtype for case in cases)}
    return [captures[case.dtype].document(case) for case in cases]


def capture_stock(config: dict[str, Any], cases: Sequence[Case]) -> list[dict[str, Any]]:
    """The documents of the stock model on the CPU, in fp32 (the cases' dtype must be float32).

    Raises CaptureRefused.
    """
    if any(case.dtype != "float32" for case in cases):
        raise CaptureRefused("the stock model is captured in fp32")
    capture = _Capture(config, lambda model: model)
    return [capture.document(case) for case in cases]


class _Capture:
    """The fake model with its tape, and what was exported of its blocks."""

    def __init__(self, config: dict[str, Any], placed: Callable[[nn.Module], Any]) -> None:
        self._mode = FakeTensorMode()
        model = fake_stock(config_of(config), self._mode)
        self._tape = Tape(stock_tensors(model))
        with self._mode, self._tape, torch.no_grad():
            self._whole = Whole(model, placed(model))
        self._modules = _blocks(model)
        self._exported: dict[Any, Block] = {}
        self._returned: dict[Any, Packed] = {}
        self._alike: dict[Any, tuple[Record, Block]] = {}

    def document(self, case: Case) -> dict[str, Any]:
        """The document of one case. Raises CaptureRefused, also where a size or a branch hangs on values."""
        try:
            return self._document(case)
        except (DynamicOutputShapeException, DataDependentOutputException) as error:
            raise CaptureRefused(f"what {error} gives depends on values; a document has one form for all") from error

    def _document(self, case: Case) -> dict[str, Any]:
        """Blocks first, then the skeleton that calls them, then the constants both read."""
        with self._mode, torch.no_grad(), masks_by_broadcast():
            with self._tape:
                inputs = {name: torch.empty(case.batch, case.length, dtype=torch.int64) for name in case.inputs}
                sites = record_calls(self._modules, lambda: self._whole(**inputs), self._returned, self._tape.entries)
            parts = _Parts()
            calls = [parts.call(self._block(site)) for site in sites]
            with opaque_calls(self._modules, sites):
                skeleton = export(self._whole, (), dict(inputs))
        if len(skeleton.inputs) != len(inputs):
            raise CaptureRefused("the exported model does not take the inputs of the case")
        written = write_graph(skeleton, calls.__getitem__)
        numbers = [parts.number(key) for key in self._keys(skeleton)]
        return {
            "version": VERSION,
            "case": {"batch": case.batch, "length": case.length, "dtype": case.dtype},
            "inputs": [{"name": name, "out": meta_of(tensor)} for name, tensor in inputs.items()],
            "constants": self._tape.slice_for(parts.constants),
            "graphs": parts.graphs,
            "skeleton": {"parameters": numbers, "nodes": written["nodes"]},
            "output": written["outputs"][0],
        }

    def _block(self, site: Site) -> Block:
        """The exported block of a site. Calls of one kind are exported once, and so are calls that did the same."""
        kind = site.kind
        if kind not in self._exported:
            self._exported[kind] = self._exported_like(site)
        return self._exported[kind]

    def _exported_like(self, site: Site) -> Block:
        """The graph of an earlier call that did the same, with this call's tensors; else one of its own."""
        if site.span is None:
            return self._admitted(_export(site))
        record = record_of(self._tape, site.span, site.given.tensors, site.returned.tensors)
        if record.text in self._alike:
            earlier, block = self._alike[record.text]
            keys = [earlier.key_in(record, key) for key in block.keys]
            known = [key for key in keys if key is not None and self._tape.knows(key)]
            if len(known) == len(keys):
                return Block(block.graph, known)
        block = self._admitted(_export(site))
        self._alike.setdefault(record.text, (record, block))
        return block

    def _admitted(self, exported: Exported) -> Block:
        return Block(write_graph(exported), self._keys(exported))

    def _keys(self, exported: Exported) -> list[Key]:
        """Where the tensors lie that an exported graph reads; those that export made are noted as literals."""
        for tensor in exported.tensors:
            self._tape.admit(tensor)
        return [key_of(tensor) for tensor in exported.tensors]


class Block(NamedTuple):
    """A written graph and the tensors of the model it reads, in order, by where they lie."""

    graph: dict[str, Any]
    keys: list[Key]


def _export(site: Site) -> Exported:
    return export(Body(site), tuple(site.given.tensors))


class _Parts:
    """Graphs and constants of one document: equal text is one graph, the same memory one constant."""

    def __init__(self) -> None:
        self.graphs: list[dict[str, Any]] = []
        self.constants: list[Key] = []
        self._texts: dict[str, int] = {}
        self._numbers: dict[Key, int] = {}

    def call(self, block: Block) -> dict[str, Any]:
        """How a call of the block stands in the skeleton."""
        text = json.dumps(block.graph, sort_keys=True)
        if text not in self._texts:
            self._texts[text] = len(self.graphs)
            self.graphs.append(block.graph)
        return {"call": self._texts[text], "parameters": [self.number(k) for k in block.keys]}

    def number(self, key: Key) -> int:
        """The number of a constant."""
        if key not in self._numbers:
            self._numbers[key] = len(self.constants)
            self.constants.append(key)
        return self._numbers[key]


def _blocks(model: nn.Module) -> list[nn.Module]:
    from adapters.structure import find_blocks

    return [block.module for block in find_blocks(model)]
