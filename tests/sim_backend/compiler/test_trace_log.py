"""No traced file is read for names that only a log shows."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from torch._dynamo import funcname_cache, output_graph


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@pytest.mark.parametrize("shown", [False, True])
def test_a_traced_file_is_read_only_for_a_log_that_is_on(
    shown: bool, use: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(funcname_cache, "cache", {})
    caplog.set_level(logging.DEBUG if shown else logging.WARNING, logger=output_graph.trace_call_log.name)
    torch.compile(scaled, fullgraph=True, dynamic=False)(torch.ones(2, 64).half().to("spyre"))
    assert (__file__ in funcname_cache.cache) is shown
