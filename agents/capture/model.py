"""One document per case: the stock model of a config, patched or not, as data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from .apply import place_patched
from .calls import Body, Site, opaque_calls, record_calls
from .case import DTYPES, Case
from .device import pretend_device
from .errors import CaptureRefused
from .graphs import Exported, export, write_graph
from .run import hidden_of
from .stock import config_of, fake_stock, stock_tensors
from .tape import Tape, key_of

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

    Raises CaptureRefused; patches raise errors of their own.
    """
    device = pretend_device()
    return [_Capture(config, patches, device, case).document() for case in cases]


def capture_stock(config: dict[str, Any], cases: Sequence[Case]) -> list[dict[str, Any]]:
    """The documents of the stock model on the CPU, in fp32 (the cases' dtype must be float32).

    Raises CaptureRefused.
    """
    return [_Capture(config, None, torch.device("cpu"), case).document() for case in cases]


class _Capture:
    """One capture: a fake model of its own, so that no case sees what another left behind."""

    def __init__(
        self, config: dict[str, Any], patches: Sequence[Mapping[str, Any]] | None, device: torch.device, case: Case
    ) -> None:
        self._case = case
        self._mode = FakeTensorMode()
        self._model = fake_stock(config_of(config), self._mode)
        self._tape = Tape(stock_tensors(self._model))
        self._constants: list[Tensor] = []
        self._numbers: dict[Any, int] = {}
        self._graphs: list[dict[str, Any]] = []
        with self._mode, self._tape, torch.no_grad():
            self._runner = self._placed(patches, device)
            self._inputs = {name: torch.empty(case.batch, case.length, dtype=torch.int64) for name in case.inputs}
            self._whole = Whole(self._model, self._runner)
            self._modules = _blocks(self._model)
            self._sites = record_calls(self._modules, lambda: self._whole(**self._inputs))

    def _placed(self, patches: Sequence[Mapping[str, Any]] | None, device: torch.device) -> Any:
        if patches is not None:
            return place_patched(self._model, patches, device, DTYPES[self._case.dtype])
        if self._case.dtype != "float32":
            raise CaptureRefused("the stock model is captured in fp32")
        return self._model

    def document(self) -> dict[str, Any]:
        """The document: blocks first, then the skeleton that calls them, then the constants both read."""
        with self._mode, torch.no_grad():
            calls = [self._call(site) for site in self._sites]
            with opaque_calls(self._modules, self._sites):
                skeleton = export(self._whole, (), dict(self._inputs))
        written = write_graph(skeleton, calls.__getitem__)
        numbers = [self._number(t) for t in skeleton.tensors]
        return {
            "version": VERSION,
            "case": {"batch": self._case.batch, "length": self._case.length, "dtype": self._case.dtype},
            "inputs": self._named_inputs(skeleton),
            "constants": self._tape.slice_for(self._constants),
            "graphs": self._graphs,
            "skeleton": {"parameters": numbers, "nodes": written["nodes"]},
            "output": written["outputs"][0],
        }

    def _named_inputs(self, skeleton: Exported) -> list[dict[str, Any]]:
        if len(skeleton.inputs) != len(self._inputs):
            raise CaptureRefused("the exported model does not take the inputs of the case")
        return [{"name": n, "out": ["int64", [self._case.batch, self._case.length]]} for n in self._inputs]

    def _call(self, site: Site) -> dict[str, Any]:
        """The graph and constants of one call; equal text is one graph."""
        exported = export(Body(site), tuple(site.given.tensors))
        graph = write_graph(exported)
        text = json.dumps(graph, sort_keys=True)
        known = [json.dumps(g, sort_keys=True) for g in self._graphs]
        if text not in known:
            self._graphs.append(graph)
            known.append(text)
        return {"call": known.index(text), "parameters": [self._number(t) for t in exported.tensors]}

    def _number(self, tensor: Tensor) -> int:
        """The number of a constant; the same memory is one constant."""
        key = key_of(tensor)
        if key not in self._numbers:
            self._numbers[key] = len(self._constants)
            self._constants.append(tensor)
        return self._numbers[key]


def _blocks(model: nn.Module) -> list[nn.Module]:
    from adapters.structure import find_blocks

    return [block.module for block in find_blocks(model)]
