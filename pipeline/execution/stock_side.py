"""What the CPU says of a plan: the stock model on every probe, and the patched one; made beside a child."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from torch import Tensor

from pipeline.execution.beside import Clock, Done
from pipeline.verification.compare import StockRuns, stock_runs
from pipeline.verification.ideal import Conversion
from pipeline.verification.parts import reference_run
from pipeline.verification.probes import ProbeBatch

T = TypeVar("T")


class StockSide:
    """Stock runs of the probes and references of the ranked pairs, in order, and whatever is added as a piece.

    `until` makes pieces while something else is not done; `finish` makes the rest. What fails in `until` is raised by
    `finish`, when it is asked for.
    """

    def __init__(
        self,
        model: Any,
        probes: Sequence[ProbeBatch],
        ranked: Sequence[ProbeBatch],
        pooling: str,
        conversion: Conversion,
        clock: Clock,
    ) -> None:
        self.stocks: list[StockRuns] = []
        self.references: list[Tensor] = []
        self._clock, self._failed = clock, False
        self._pieces: deque[tuple[str, Callable[[], None]]] = deque()
        for probe in probes:
            run = partial(stock_runs, model, probe, pooling, conversion=conversion)
            self.add("stock runs and controls", run, self.stocks)
        for probe in ranked:
            self.add("references of ranked pairs", partial(reference_run, model, probe.inputs), self.references)

    def add(self, stage: str, make: Callable[[], T], into: list[T]) -> None:
        """One more piece at the end, whose result goes to the end of `into`."""
        self._pieces.append((stage, lambda: into.append(make())))

    def until(self, done: Done) -> None:
        """Makes pieces until there is none left or `done`."""
        while self._pieces and not self._failed and not done():
            try:
                self._next()
            except Exception:  # noqa: BLE001 - the child's answer comes first; `finish` raises it again
                self._failed = True

    def finish(self) -> None:
        """Makes what is left."""
        while self._pieces:
            self._next()

    def _next(self) -> None:
        stage, make = self._pieces[0]
        with self._clock.stage(stage):
            make()
        self._pieces.popleft()
