"""A replay that can be watched and led: at every block call the residual stream may be put in place and is noted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from adapters.replay.interpreter import Interpreter
from pipeline.verification.parts import MASKED_BELOW
from pipeline.verification.replay import Constants, ModelReplay, Precision

Lead = Callable[[int, Tensor], Tensor]
"""From the number of the call and the stream that came to the stream that goes in."""


class Call(NamedTuple):
    """One block call: its graph, what it was given, where in that the stream stands, and what it returned."""

    graph: Mapping[str, Any]
    given: tuple[Tensor, ...]
    parameters: tuple[Tensor, ...]
    stream: int
    natural: Tensor
    outputs: tuple[Tensor, ...]


class _Reached(Exception):
    """The first block call of a run that is to end there."""

    def __init__(self, stream: Tensor) -> None:
        super().__init__()
        self.stream = stream


class Recorder(ModelReplay):
    """One run of a document in fp64 on the CPU, block call by block call. `lead` changes the streams that go in.

    A call's parameters are kept for the first call of each graph only. `constants` may be shared between recorders of
    the same tensors.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        lead: Lead | None = None,
        constants: Constants | None = None,
    ) -> None:
        super().__init__(document, tensors, Precision.FP64, constants=constants)
        self.calls: list[Call] = []
        self._lead = lead
        self._stop = False

    def block(
        self, graph: Mapping[str, Any], values: Sequence[Tensor], device: torch.device, compiled: bool = False
    ) -> Sequence[Tensor]:
        """Runs one call with the stream that `lead` chooses, and notes it."""
        count, at = len(graph["inputs"]), stream_of(graph)
        given = list(values[:count])
        natural = given[at]
        if self._stop:
            raise _Reached(natural)
        if self._lead is not None:
            given[at] = self._lead(len(self.calls), natural)
        outputs = tuple(super().block(graph, [*given, *values[count:]], device))
        first = all(call.graph is not graph for call in self.calls)
        parameters = tuple(values[count:]) if first else ()
        self.calls.append(Call(graph, tuple(given), parameters, at, natural, outputs))
        return outputs

    def first_stream(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """The stream that the first block would get for `inputs`; no block runs."""
        before, self._stop = self.calls, True
        try:
            self.run(inputs)
        except _Reached as reached:
            return reached.stream
        finally:
            self.calls, self._stop = before, False
        raise ValueError("the document calls no block")

    def again(self, call: Call, stream: Tensor, parameters: Sequence[Tensor] | None = None) -> tuple[Tensor, ...]:
        """The block of a noted call on another stream, and on other parameters if given."""
        given = list(call.given)
        given[call.stream] = stream
        held = call.parameters if parameters is None else tuple(parameters)
        with torch.no_grad():
            return tuple(super().block(call.graph, [*given, *held], torch.device("cpu")))


def stream_of(graph: Mapping[str, Any]) -> int:
    """Which input of a block is the residual stream: the first of the shape of what it returns first.

    Raises ValueError if none is.
    """
    outputs = [shape for _, shape in _results(graph) if len(shape) == 3]
    for number, (dtype, shape) in enumerate(graph["inputs"]):
        if dtype in FLOATS and len(shape) == 3 and (not outputs or shape == outputs[0]):
            return number
    raise ValueError("a block reads no residual stream")


FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})


def _results(graph: Mapping[str, Any]) -> list[list[Any]]:
    """Dtype and shape of what the block returns, tensors only."""
    first = len(graph["inputs"]) + len(graph["parameters"])
    metas = [*graph["inputs"], *graph["parameters"], *(node["out"] for node in graph["nodes"])]
    assert len(metas) >= first
    return [metas[o["ref"]] for o in graph["outputs"] if not isinstance(metas[o["ref"]][0], list)]


class _Scores(Interpreter):
    """Notes the largest attention score that passes, masked ones left out."""

    largest = 0.0

    def _node(self, node: dict[str, Any], call: Callable[[dict[str, Any], Any], Any] | None) -> Any:
        if node["op"] == ATTENTION:
            query, key, scale = (
                self._decoded(node["args"][0]),
                self._decoded(node["args"][1]),
                node["kwargs"].get("scale"),
            )
            groups = query.shape[-3] // key.shape[-3]
            scores = query @ key.repeat_interleave(groups, -3).transpose(-1, -2)
            self._note(scores * (query.shape[-1] ** -0.5 if scale is None else scale))
        elif node["op"] in SOFTMAX:
            self._note(self._decoded(node["args"][0]))
        return super()._node(node, call)

    def _note(self, scores: Tensor) -> None:
        kept = scores[scores > MASKED_BELOW]
        self.largest = max(self.largest, float(kept.abs().max()) if kept.numel() else 0.0)


ATTENTION = "aten.scaled_dot_product_attention.default"
SOFTMAX = frozenset({"aten.softmax.int", "aten._softmax.default", "aten._safe_softmax.default"})


def largest_score(call: Call, stream: Tensor) -> float:
    """The largest attention score of a noted block on another stream, before any mask; 0 if it has no attention."""
    given = list(call.given)
    given[call.stream] = stream
    run = _Scores([*given, *call.parameters], Precision.FP64, torch.device("cpu"))
    with torch.no_grad():
        run.run(call.graph["nodes"], [o["ref"] for o in call.graph["outputs"]])
    return run.largest
