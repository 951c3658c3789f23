"""A document as something that runs: constants from the stock tensors, host parts, and blocks, eager or compiled."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from .arguments import decode
from .errors import DocumentRefused
from .interpreter import Interpreter, default_dtype
from .operators import PURE, SURGERY
from .precision import Precision


class Blocks:
    """Compiled blocks by their text: equal graphs of one or several documents are compiled once."""

    def __init__(self) -> None:
        self._compiled: dict[str, Any] = {}

    def __call__(self, graph: Mapping[str, Any], device: torch.device) -> Any:
        """The compiled function of a graph: tensors, then parameters, to a tuple of tensors."""
        text = json.dumps(graph, sort_keys=True)
        if text not in self._compiled:
            module = graph_module(graph, device)
            self._compiled[text] = torch.compile(module, fullgraph=True, dynamic=False)
        return self._compiled[text]


class Constants:
    """Recomputed constants by their text, precision and device: documents of several cases mostly share them."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, Precision, str], list[Tensor]] = {}

    def __call__(
        self, document: Mapping[str, Any], tensors: Mapping[str, Tensor], precision: Precision, device: torch.device
    ) -> list[Tensor]:
        """The constants of a document; `tensors` must be the same in every call."""
        key = (json.dumps(document["constants"], sort_keys=True), precision, str(device))
        if key not in self._made:
            self._made[key] = recompute(document, tensors, precision, device)
        return self._made[key]

    def clear(self) -> None:
        """Lets the memory go; what is asked for again is made again."""
        self._made.clear()


class ModelReplay:
    """One validated document with the stock model's tensors. Everything runs under no_grad.

    `tensors` are the stock model's by name, on the CPU; they are neither changed nor kept on the device. `blocks` and
    `constants` may be shared by several replays of one model. Raises DocumentRefused if recomputing the constants
    changed a stock tensor.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        precision: Precision = Precision.AS_IS,
        blocks: Blocks | None = None,
        constants: Constants | None = None,
    ) -> None:
        self.document = document
        self.block_calls = 0
        self._tensors, self._precision = tensors, precision
        self._blocks = blocks if blocks is not None else Blocks()
        self._made = constants if constants is not None else Constants()
        self._constants: dict[str, list[Tensor]] = {}

    def run(self, inputs: Mapping[str, Tensor], device: str = "cpu", compiled: bool = False) -> Tensor:
        """[batch, length, width] on the host for int64 `inputs` of the case's shape.

        `compiled` compiles each distinct block once (fullgraph, static shapes). `block_calls` counts the calls whose
        result lay on the device.
        """
        place = torch.device(device)
        skeleton = self.document["skeleton"]
        with torch.no_grad(), torch.inference_mode(False), default_dtype(self._precision):
            constants = self.constants(device)
            held = [constants[n] for n in skeleton["parameters"]]
            values = [self._input(entry, inputs) for entry in self.document["inputs"]]
            run = Interpreter([*values, *held], self._precision, place)

            def call(node: dict[str, Any], given: list[Tensor]) -> Sequence[Tensor]:
                graph = self.document["graphs"][node["call"]]
                found = self.block(graph, [*given, *(constants[n] for n in node["parameters"])], place, compiled)
                self.block_calls += found[0].device.type == place.type
                return found

            (output,) = run.run(skeleton["nodes"], [self.document["output"]["ref"]], call)
        result: Tensor = output
        return result

    def block(
        self, graph: Mapping[str, Any], values: Sequence[Tensor], device: torch.device, compiled: bool = False
    ) -> Sequence[Tensor]:
        """One graph on its inputs and parameters."""
        if compiled:
            found: Sequence[Tensor] = self._blocks(graph, device)(*values)
            return found
        outputs = [o["ref"] for o in graph["outputs"]]
        return Interpreter(values, self._precision, device).run(graph["nodes"], outputs)

    def constants(self, device: str = "cpu") -> list[Tensor]:
        """The document's constants, recomputed from the stock tensors on first use for each device."""
        if device not in self._constants:
            place = torch.device(device)
            self._constants[device] = self._made(self.document, self._tensors, self._precision, place)
        return self._constants[device]

    def _input(self, entry: Mapping[str, Any], inputs: Mapping[str, Tensor]) -> Tensor:
        given = inputs[entry["name"]]
        if list(given.shape) != entry["out"][1] or given.dtype != torch.int64:
            raise ValueError(f"{entry['name']}: {tuple(given.shape)} {given.dtype}, the document is for {entry['out']}")
        return given


def recompute(
    document: Mapping[str, Any], tensors: Mapping[str, Tensor], precision: Precision, device: torch.device
) -> list[Tensor]:
    """The constants from the stock tensors: those that surgery writes to are private copies.

    Raises DocumentRefused if a stock tensor was written to all the same.
    """
    section = document["constants"]
    names = [entry["name"] for entry in section["stock"]]
    before = {name: tensors[name]._version for name in names}
    copied = any(SURGERY[n["op"]]._schema.is_mutable for n in section["nodes"] if n["op"] in SURGERY)
    with torch.no_grad(), default_dtype(precision):
        given = [_source(tensors[name].detach(), precision, copied) for name in names]
        kept = [v["ref"] for v in section["values"]]
        found = Interpreter(given, precision, device).run(section["nodes"], kept)
    moved = [name for name in names if tensors[name]._version != before[name]]
    if moved:
        raise DocumentRefused(f"recomputing the constants wrote to {moved[0]!r}", "constants")
    return found


def _source(tensor: Tensor, precision: Precision, copied: bool) -> Tensor:
    mapped = precision.tensor(tensor)
    return mapped.clone() if copied and mapped is tensor else mapped


def graph_module(graph: Mapping[str, Any], device: torch.device) -> fx.GraphModule:
    """A graph of a document as a module of tensors: the unit of compilation. Names in its code are ours."""
    built = fx.Graph()
    count = len(graph["inputs"]) + len(graph["parameters"])
    values: list[Any] = [built.placeholder(f"v{n}") for n in range(count)]

    def decoded(value: Any) -> Any:
        return decode(value, values.__getitem__, lambda name: device if name != "cpu" else torch.device("cpu"), _same)

    for node in graph["nodes"]:
        args = tuple(decoded(a) for a in node["args"])
        if node["op"] == "getitem":
            values.append(built.call_function(_pick, args))
        else:
            kwargs = {k: decoded(v) for k, v in node["kwargs"].items()}
            values.append(built.call_function(PURE[node["op"]], args, kwargs))
    built.output(tuple(values[o["ref"]] for o in graph["outputs"]))
    return fx.GraphModule(nn.Module(), built, class_name="ReplayedBlock")


def _same(dtype: torch.dtype) -> torch.dtype:
    return dtype


def _pick(values: Sequence[Tensor], number: int) -> Tensor:
    return values[number]
