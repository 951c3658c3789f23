"""What is swapped in for a device graph is taken out again; other devices are compiled by Inductor as ever."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
import torch._dynamo
from torch._functorch._aot_autograd.runtime_wrappers import _AnalyzeCustomOpInputOutputMode
from torch._inductor import codecache, lowering
from torch._inductor.ops_handler import DefaultHandler

from sim_backend.compiler.dynamo import lives_on_device
from sim_backend.compiler.session import Session, current_session
from sim_backend.compiler.swap import compiling
from sim_backend.profiles import load_profile

POW = torch.ops.aten.pow.Tensor_Scalar


def test_everything_is_restored_after_a_compilation() -> None:
    import torch._prims_common as prims

    before = (dict(lowering.lowerings), prims._computation_dtype_map, lowering.use_two_step_variance)
    with compiling(Session(load_profile())):
        assert lowering.lowerings[POW] is not before[0][POW]
        assert prims._computation_dtype_map == {}
        assert hasattr(DefaultHandler, "gelufwd")
    after = (dict(lowering.lowerings), prims._computation_dtype_map, lowering.use_two_step_variance)
    assert before == after
    assert "gelufwd" not in vars(DefaultHandler)


def test_everything_is_restored_after_a_failure() -> None:
    held = lowering.lowerings[POW]
    with pytest.raises(ZeroDivisionError), compiling(Session(load_profile())):
        raise ZeroDivisionError
    assert lowering.lowerings[POW] is held


def test_there_is_no_session_outside_a_compilation() -> None:
    with pytest.raises(RuntimeError, match="no compilation for spyre"):
        current_session()


def test_a_graph_is_the_devices_if_any_tensor_is(use: Any) -> None:
    host, device = torch.ones(2), torch.ones(2).to("spyre")
    graph = torch.fx.symbolic_trace(torch.nn.Identity())
    assert not lives_on_device(graph, [host, 3])
    assert lives_on_device(graph, [host, device])
    assert lives_on_device(torch.nn.Linear(2, 2).to("spyre"), [host])


def test_no_host_operation_of_a_first_call_passes_through_python(use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch watches custom operations in a graph's first call; on other devices it still does."""
    seen: list[Any] = []
    watch = _AnalyzeCustomOpInputOutputMode.__torch_dispatch__

    def noting(mode: Any, func: Any, *rest: Any, **more: Any) -> Any:
        seen.append(func)
        return watch(mode, func, *rest, **more)

    monkeypatch.setattr(_AnalyzeCustomOpInputOutputMode, "__torch_dispatch__", noting)
    x = torch.ones(2, 64)
    torch.compile(lambda v: v * 3, fullgraph=True, dynamic=False)(x.half().to("spyre"))
    assert not seen
    torch.compile(lambda v: v * 3, fullgraph=True, dynamic=False, backend="aot_eager")(x)
    assert seen


@pytest.mark.parametrize("logged", [False, True])
def test_a_graph_is_hashed_again_for_the_log_only_if_it_is_shown(
    logged: bool, use: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    described: list[Any] = []
    plain = codecache.FxGraphCachePickler.debug_lines

    def noting(pickler: Any, details: Any) -> list[str]:
        described.append(details)
        return plain(pickler, details)

    monkeypatch.setattr(codecache.FxGraphCachePickler, "debug_lines", noting)
    caplog.set_level(logging.DEBUG if logged else logging.INFO, logger=codecache.log.name)
    torch.compile(lambda v: v * (7 + logged), fullgraph=True, dynamic=False)(torch.ones(2, 64).half().to("spyre"))
    assert bool(described) is logged
