"""What refers to itself is gone once memory is given back, though the collector has not come."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from pipeline.execution.heap import give_back


class Comparison:
    def __init__(self) -> None:
        self.itself: Any = self


@pytest.fixture
def no_collector() -> Any:
    gc.disable()
    yield
    gc.enable()


def test_what_refers_to_itself_is_gone(no_collector: None) -> None:
    held = weakref.ref(Comparison())
    assert held() is not None
    give_back()
    assert held() is None
