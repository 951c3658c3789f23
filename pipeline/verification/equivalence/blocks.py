"""Two documents of one case compared in fp64, part by part: what leads to the blocks, each block, what follows.

The patched run is led: into each of its blocks goes the stream of the stock run, so that a difference is that of one
block and not of all before it; together the parts are the model. Then each distinct block graph gets drawn activations,
ordinary weights and quiet ones (`draws`). Where the borders of the two models cannot be matched, only whole runs are
compared, with ordinary and with quiet weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.verification.equivalence.borders import Border, find_border
from pipeline.verification.equivalence.draws import (
    KINDS,
    SCORE_LIMIT,
    Tokens,
    draw_inputs,
    draw_stream,
    nudged,
    quiet_weights,
    whole_vocabulary,
)
from pipeline.verification.equivalence.limits import limits
from pipeline.verification.equivalence.recorder import Call, Lead, Recorder, largest_score
from pipeline.verification.equivalence.rows import RowFault, compare_rows
from pipeline.verification.equivalence.sixteen_bits import loss, run_in_dl16, times_as_much, worst_row
from pipeline.verification.replay import Constants, DocumentRefused, ModelReplay, Precision, looks_up_made_tables

Document = Mapping[str, Any]
DRAWN = "drawn activations ({})"
ROWS = DRAWN.format("rows")
NATURAL, QUIET, VOCABULARY = "the model's own activations", "quiet weights", "every token of the vocabulary"


@dataclass(frozen=True)
class Subject:
    """The stock model as data: its tensors by name, which of them are parameters, its tokens; and the hidden seed.

    `constants` are those that documents of this model have been found to need, kept between comparisons.
    """

    tensors: Mapping[str, Tensor]
    parameters: frozenset[str]
    tokens: Tokens
    seed: int
    constants: Constants = field(default_factory=Constants, compare=False)


class Fault(NamedTuple):
    """Where a patch differs from stock, on what, and the worst row; `raised` where it does not run at all."""

    place: str
    drawn: str
    row: RowFault
    raised: str = ""

    def __str__(self) -> str:
        r = self.row
        if self.raised:
            return f"{self.drawn}: the patch raises {self.raised}"
        return f"{self.drawn}, text {r.batch} token {r.token}: stock gives {r.stock:.9g}, the patch {r.patched:.9g}"


class Found(NamedTuple):
    """Rows compared, the largest error relative to a row's largest value, the first fault, and how blocks were met."""

    rows: int
    error: float
    fault: Fault | None
    paired: bool

    def and_then(self, other: Found) -> Found:
        """Both together; the first fault stays."""
        return Found(
            self.rows + other.rows,
            max(self.error, other.error),
            self.fault or other.fault,
            self.paired and other.paired,
        )


NOTHING = Found(0, 0.0, None, True)


def compare_documents(stock: Document, patched: Document, subject: Subject, bound: float | None = None) -> Found:
    """Compares the documents of one case. `bound` is that of a bounded claim; without it the limits of `exact` hold.

    Raises ValueError if the documents are of two cases.
    """
    if stock["case"]["batch"] != patched["case"]["batch"] or stock["case"]["length"] != patched["case"]["length"]:
        raise ValueError("the documents are of two cases")
    comparison = _Comparison(stock, patched, subject, bound)
    try:
        found = comparison.natural()
    except PatchRaised as error:
        return Found(0, float("inf"), Fault("model", NATURAL, _NO_ROW, str(error)), False)
    if found.fault is None:
        found = found.and_then(comparison.drawn() if found.paired else comparison.whole_with_quiet_weights())
    return found if found.fault is not None else found.and_then(comparison.vocabulary())


_NO_ROW = RowFault(0, 0, float("inf"), float("nan"), float("nan"))


class PatchRaised(Exception):
    """The patched document cannot run on inputs that the stock document takes."""


class _Comparison:
    def __init__(self, stock: Document, patched: Document, subject: Subject, bound: float | None) -> None:
        self._documents = (stock, patched)
        self._subject, self._bound = subject, bound
        names = tuple(entry["name"] for entry in stock["inputs"])
        case = stock["case"]
        self._inputs = draw_inputs(names, case["batch"], case["length"], subject.tokens, subject.seed)
        self._real = self._inputs["attention_mask"].bool()
        self._real_in_stream = F.pad(self._real, padding_of(stock))
        self._border: Border | None = None
        self._stock = self._recorder(stock)
        self._patched = self._recorder(patched, self._lead)

    def _recorder(self, document: Document, lead: Lead | None = None) -> Recorder:
        return Recorder(document, self._subject.tensors, lead, self._subject.constants)

    @cached_property
    def _quiet(self) -> tuple[dict[str, Tensor], Constants]:
        """Quiet tensors, and the constants made of them."""
        return quiet_weights(self._subject.tensors, self._subject.parameters), Constants()

    def _quiet_recorder(self, document: Document, lead: Lead | None = None) -> Recorder:
        tensors, constants = self._quiet
        return Recorder(document, tensors, lead, constants)

    def _lead(self, number: int, natural: Tensor) -> Tensor:
        calls = self._stock.calls
        if number == 0 and calls:
            self._border = find_border(calls[0].natural, natural, self._real_in_stream)
        if self._border is None or number >= len(calls):
            return natural
        return self._border.inward(calls[number].natural, natural)

    def natural(self) -> Found:
        """Both models on the drawn inputs, part by part."""
        expected = self._stock.run(self._inputs)
        try:
            output = self._patched.run(self._inputs)
        except (RuntimeError, IndexError, ValueError, DocumentRefused) as error:
            raise PatchRaised(f"{type(error).__name__}: {str(error).splitlines()[0][:200]}") from error
        paired = self._border is not None and len(self._stock.calls) == len(self._patched.calls)
        found = NOTHING
        if paired:
            for number in range(len(self._stock.calls)):
                found = found.and_then(self._call(number))
        result = self._rows("output", NATURAL, expected, output, None)
        if result.fault is not None and found.fault is None:
            result = self._rows("output", NATURAL, expected, output, self._moved_output())
        return found.and_then(result)._replace(paired=paired)

    def _call(self, number: int) -> Found:
        one, other = self._stock.calls[number], self._patched.calls[number]
        assert self._border is not None
        place = "embeddings" if number == 0 else f"between blocks {number - 1} and {number}"
        glue = self._rows(place, NATURAL, one.natural, self._border.outward(other.natural), None)
        return glue.and_then(self._block(number, NATURAL, one, one.given[one.stream], one.outputs, other.outputs))

    def _block(
        self,
        number: int,
        drawn: str,
        one: Call,
        stream: Tensor,
        expected: Sequence[Tensor],
        found: Sequence[Tensor],
    ) -> Found:
        """The stream that a block returns for `stream`; where it is too far, rounding may explain it."""
        assert self._border is not None
        place, patched = f"block {number}", self._border.outward(found[0])
        result = self._rows(place, drawn, expected[0], patched, None)
        if result.fault is None:
            return result
        held = one.parameters or parameters_of(self._stock, number)
        moved = self._stock.again(one, nudged(stream, self._subject.seed), held)
        return self._rows(place, drawn, expected[0], patched, moved[0])

    def _moved_output(self) -> Tensor:
        """The stock output when rounding moves every stream that goes into a block."""
        recorder = self._recorder(self._documents[0], lambda n, x: nudged(x, self._subject.seed + n))
        return recorder.run(self._inputs)

    def drawn(self) -> Found:
        """Each distinct pair of block graphs on drawn activations."""
        found = NOTHING
        for number in self._distinct():
            for drawn, one, other, stream in self._draws(number):
                found = found.and_then(self._drawn_block(number, drawn, one, other, stream))
            found = found.and_then(self._quiet_block(number))
            found = found if found.fault is not None else found.and_then(self._block_in_dl16(number))
        return found

    def _block_in_dl16(self, number: int) -> Found:
        """A pair of blocks on the model's own activations, both in ideal DL16."""
        assert self._border is not None
        one = self._with_parameters(self._stock, number)
        other = self._with_parameters(self._patched, number)
        lost = loss(one.outputs[0], run_in_dl16(one, one.given[one.stream]))
        found = run_in_dl16(other, other.given[other.stream])
        more = loss(self._border.outward(other.outputs[0]), self._border.outward(found))
        times = times_as_much(lost, more, self._real_in_stream)
        if times <= limits().dl16_ratio:
            return NOTHING
        row = worst_row(more, lost, self._real_in_stream)
        drawn = f"{NATURAL} in DL16, where it loses {times:.3g} times what the stock block loses"
        return Found(0, row.error, Fault(f"block {number}", drawn, row), True)

    def _distinct(self) -> Iterator[int]:
        seen: set[tuple[int, int]] = set()
        for number, (one, other) in enumerate(zip(self._stock.calls, self._patched.calls, strict=True)):
            key = (id(one.graph), id(other.graph))
            if key not in seen:
                seen.add(key)
                yield number

    def _draws(self, number: int) -> Iterator[tuple[str, Call, Call, Tensor]]:
        one = self._with_parameters(self._stock, number)
        other = self._with_parameters(self._patched, number)
        scale = float(one.natural[self._real_in_stream].pow(2).mean().sqrt())
        seed = self._subject.seed + number
        for kind in KINDS:
            stream = within_scores(one, draw_stream(kind, tuple(one.natural.shape), scale, seed))
            yield DRAWN.format(kind), one, other, stream

    def _quiet_block(self, number: int) -> Found:
        """A block with quiet weights.

        What it is given beside the stream may rest on weights too: a patched block may get from the host the bias that
        stock makes inside. So a difference counts only if it is there with what quiet weights make of that.
        """
        shape = tuple(self._stock.calls[number].natural.shape)
        stream, drawn = draw_stream("rows", shape, 1.0, self._subject.seed + number), f"{ROWS}, {QUIET}"
        calls = [recorder.calls[number] for recorder in (self._stock, self._patched)]
        quiet = [tuple(parameters_of(self._quiet_recorder(document), number)) for document in self._documents]
        one, other = (call._replace(parameters=held) for call, held in zip(calls, quiet, strict=True))
        found = self._drawn_block(number, drawn, one, other, stream)
        if found.fault is None:
            return found
        one, other = (r.calls[number]._replace(parameters=q) for r, q in zip(self._quiet_runs, quiet, strict=True))
        return self._drawn_block(number, drawn, one, other, stream)

    @cached_property
    def _quiet_runs(self) -> tuple[Recorder, Recorder]:
        """Both models with quiet weights on the drawn inputs."""
        one, other = (self._quiet_recorder(document) for document in self._documents)
        one.run(self._inputs)
        other.run(self._inputs)
        return one, other

    def _with_parameters(self, recorder: Recorder, number: int) -> Call:
        call = recorder.calls[number]
        return call if call.parameters else call._replace(parameters=tuple(parameters_of(recorder, number)))

    def _drawn_block(self, number: int, drawn: str, one: Call, other: Call, stream: Tensor) -> Found:
        assert self._border is not None
        led = self._border.inward(stream, other.natural)
        expected, found = self._stock.again(one, stream), self._patched.again(other, led)
        return self._block(number, drawn, one, stream, expected, found)

    def vocabulary(self) -> Found:
        """Every row of a token table that surgery made, as the first block gets it: a draw meets few of them.

        Stock tables that are looked up as they are need no look. Without a border whole runs are compared.
        """
        stock, patched = self._documents
        if not looks_up_made_tables(patched):
            return NOTHING
        names = tuple(entry["name"] for entry in stock["inputs"])
        size = stock["case"]["batch"], stock["case"]["length"]
        compare = self._whole_runs() if self._border is None else self._first_streams
        found = NOTHING
        for inputs in whole_vocabulary(names, *size, self._subject.tokens.vocabulary):
            found = found.and_then(compare(inputs))
            if found.fault is not None:
                break
        return found

    def _first_streams(self, inputs: Mapping[str, Tensor]) -> Found:
        assert self._border is not None
        one, other = (recorder.first_stream(inputs) for recorder in (self._stock, self._patched))
        real = F.pad(torch.ones_like(self._real), padding_of(self._documents[0]))
        return self._compared("embeddings", VOCABULARY, one, self._border.outward(other), None, real)

    def _whole_runs(self) -> Callable[[Mapping[str, Tensor]], Found]:
        """Compares whole outputs; each document's constants are computed once for all inputs."""
        tensors, constants = self._subject.tensors, self._subject.constants
        runs = [ModelReplay(d, tensors, Precision.FP64, constants=constants) for d in self._documents]

        def compare(inputs: Mapping[str, Tensor]) -> Found:
            one, other = (run.run(inputs) for run in runs)
            found = self._compared("output", VOCABULARY, one, other, None, torch.ones_like(self._real))
            return found._replace(paired=False)

        return compare

    def whole_with_quiet_weights(self) -> Found:
        """Both whole models with quiet weights: what an epsilon decides is seen without a border."""
        expected, output = (self._quiet_recorder(document).run(self._inputs) for document in self._documents)
        nudge = self._quiet_recorder(self._documents[0], lambda n, x: nudged(x, n)).run(self._inputs)
        return self._rows("output", QUIET, expected, output, nudge)._replace(paired=False)

    def _rows(self, place: str, drawn: str, stock: Tensor, patched: Tensor, moved: Tensor | None) -> Found:
        real = self._real if stock.shape[1] == self._real.shape[1] else self._real_in_stream
        return self._compared(place, drawn, stock, patched, moved, real)

    def _compared(
        self, place: str, drawn: str, stock: Tensor, patched: Tensor, moved: Tensor | None, real: Tensor
    ) -> Found:
        rows = compare_rows(stock, patched, real, moved, self._bound)
        fault = None if rows.fault is None else Fault(place, drawn, rows.fault)
        return Found(rows.compared, rows.error, fault, True)


def padding_of(document: Document) -> tuple[int, int]:
    """By how many tokens a document pads its inputs on the left and on the right: the stock side may be padded too."""
    case = [document["case"]["batch"], document["case"]["length"]]
    for node in document["skeleton"]["nodes"]:
        if node.get("op") in PADS and node["out"][0] == "int64" and len(node["args"][1]) == 2:
            left, right = node["args"][1]
            if node["out"][1] == [case[0], case[1] + left + right]:
                return left, right
    return 0, 0


PADS = frozenset({"aten.pad.default", "aten.constant_pad_nd.default"})


def parameters_of(recorder: Recorder, number: int) -> list[Tensor]:
    """The parameters of the block call with this number, from the document's constants."""
    calls = [node for node in recorder.document["skeleton"]["nodes"] if "call" in node]
    constants = recorder.constants()
    return [constants[n] for n in calls[number]["parameters"]]


def within_scores(call: Call, stream: Tensor) -> Tensor:
    """The stream, made smaller until no attention score of the stock block is beyond what fp16 models hold."""
    for _ in range(4):
        largest = largest_score(call, stream)
        if largest <= SCORE_LIMIT:
            return stream
        stream = stream * (SCORE_LIMIT / largest) ** 0.5 * 0.9
    return stream * torch.tensor(0.1, dtype=stream.dtype)
