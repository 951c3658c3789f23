"""Work beside a child: both are done, the child is heard first, and CPU seconds go to the stage that cost them."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pipeline.execution import stock_side
from pipeline.execution.beside import Clock, Done, beside, nothing
from pipeline.execution.stock_side import StockSide
from pipeline.verification.ideal import FP32_NEAREST

SPIN = "import time\nwhile time.process_time() < 0.3: pass"


def test_what_is_done_meanwhile_sees_the_child_end() -> None:
    ends = threading.Event()
    seen: list[bool] = []

    def meanwhile(done: Done) -> None:
        seen.append(done())
        ends.set()

    assert beside(lambda: ends.wait(10), meanwhile) is True
    assert seen == [False]


def test_the_error_of_the_child_comes_before_that_of_the_work_beside_it() -> None:
    def child() -> None:
        raise KeyError("child")

    def meanwhile(_: Done) -> None:
        raise ValueError("beside")

    with pytest.raises(KeyError, match="child"):
        beside(child, meanwhile)
    with pytest.raises(ValueError, match="beside"):
        beside(lambda: None, meanwhile)


def test_a_child_s_cpu_seconds_are_not_ours() -> None:
    clock = Clock()
    with clock.child("child"), clock.stage("here"):
        beside(lambda: subprocess.run([sys.executable, "-c", SPIN], check=True), nothing)
    assert clock.cpu_s["child"] >= 0.3
    assert clock.cpu_s["here"] < 0.3


@pytest.fixture
def side(monkeypatch: pytest.MonkeyPatch) -> StockSide:
    monkeypatch.setattr(stock_side, "stock_runs", lambda model, probe, *_, **__: model(probe))
    probes: Any = [SimpleNamespace(number=n) for n in range(3)]

    def model(probe: Any) -> torch.Tensor:
        if probe.number == 1 and model.broken:  # type: ignore[attr-defined]
            raise RuntimeError("stock does not run")
        return torch.tensor(probe.number)

    model.broken = False  # type: ignore[attr-defined]
    made = StockSide(model, probes, [], "mean", FP32_NEAREST, Clock())
    made.model = model  # type: ignore[attr-defined]
    return made


def test_pieces_are_made_in_order_and_none_twice(side: StockSide) -> None:
    answers = iter((False, False, True))
    side.until(lambda: next(answers))
    assert [int(x) for x in side.stocks] == [0, 1]  # type: ignore[call-overload]
    side.finish()
    assert [int(x) for x in side.stocks] == [0, 1, 2]  # type: ignore[call-overload]


def test_what_fails_beside_a_child_is_raised_when_it_is_asked_for(side: StockSide) -> None:
    side.model.broken = True  # type: ignore[attr-defined]
    side.until(lambda: False)
    assert len(side.stocks) == 1
    with pytest.raises(RuntimeError, match="stock does not run"):
        side.finish()
