"""E-35 and E-70: offsets inside a stick are dropped by reads and refused by writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor.exc import InductorError

from sim_backend.errors import Unsupported

from .calls import call_of, operand, profiles_with, triggered

SEPTEMBER_TOO = ["2026-08", "2026-09"]


def halves(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7)).half()


def sliced(start: int, dim: int = 1, dtype: torch.dtype = torch.float16, step: int = 1) -> Any:
    return call_of("aten.slice.Tensor", operand(64, 256, dtype=dtype), dim, start, start + 32, step)


# --- E-35
COLUMNS: dict[str, tuple[Callable[..., torch.Tensor], slice]] = {
    "slice": (lambda x: x[:, 70:134] * 1, slice(64, 128)),
    "narrow": (lambda x: x.narrow(1, 10, 32) * 1, slice(0, 32)),
    "second chunk": (lambda x: x[:, :64].chunk(2, -1)[1] * 1, slice(0, 32)),
}


@pytest.mark.fact("E-35", "2.4")
@pytest.mark.parametrize("name", COLUMNS)
def test_e35_columns_from_inside_a_stick_are_those_of_its_start(name: str, use: Any, run: Callable[..., Any]) -> None:
    x = halves(4, 256)
    function, got = COLUMNS[name]
    torch.testing.assert_close(run(function, x), x.float()[:, got], atol=2e-3, rtol=2e-3)


@pytest.mark.fact("E-35")
def test_e35_a_selected_column_is_the_first_of_its_stick(use: Any, run: Callable[..., Any]) -> None:
    x = halves(4, 256)
    torch.testing.assert_close(run(lambda t: t[:, 70] * 1, x), x.float()[:, 64], atol=2e-3, rtol=2e-3)


@pytest.mark.fact("E-35")
def test_e35_whole_sticks_read_right(use: Any, run: Callable[..., Any]) -> None:
    x = halves(4, 256)
    torch.testing.assert_close(run(lambda t: t[:, 64:192] * 1, x), x.float()[:, 64:192], atol=2e-3, rtol=2e-3)


@pytest.mark.fact("E-35")
def test_e35_spares_rows_whole_sticks_and_other_steps() -> None:
    assert triggered(sliced(5, dim=0)) == triggered(sliced(128)) == triggered(sliced(0)) == []
    assert triggered(sliced(1, step=2)) == []  # no legal stick expression at all
    assert triggered(sliced(5)) == triggered(sliced(-20)) == ["E-35"]


@pytest.mark.fact("E-35", "1.5")
def test_e35_a_stick_of_fp32_is_half_as_long() -> None:
    assert triggered(sliced(32)) == ["E-35"]
    assert triggered(sliced(32, dtype=torch.float32)) == triggered(sliced(32, dtype=torch.int64)) == []


@pytest.mark.fact("E-35")
def test_e35_is_of_august_and_september() -> None:
    assert profiles_with(sliced(5), "E-35") == SEPTEMBER_TOO


# --- E-70
WRITES: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "cat": (lambda a, b: torch.cat([a, b], -1), (halves(4, 32), halves(4, 64))),
    "left pad": (lambda a: torch.nn.functional.pad(a, (5, 0)), (halves(4, 64),)),
    "slice_scatter": (lambda a, b: torch.slice_scatter(a, b, 1, 3, 35), (halves(4, 64), halves(4, 32))),
}


@pytest.mark.fact("E-70", "3.7", "2.3")
@pytest.mark.parametrize("name", WRITES)
def test_e70_writes_inside_a_stick_are_refused(name: str, use: Any, run: Callable[..., Any]) -> None:
    with pytest.raises(InductorError, match=r"Unexpected stick expression d1 \+ \d+: expected Mod\(var, 64\)"):
        run(WRITES[name][0], *WRITES[name][1])


@pytest.mark.fact("E-70")
@pytest.mark.parametrize("name", ["cat", "left pad"])
def test_e70_holds_in_eager_code(name: str, use: Any) -> None:
    function, host = WRITES[name]
    with pytest.raises(Unsupported, match="Unexpected stick expression"):
        function(*(t.to("spyre") for t in host))


@pytest.mark.fact("E-70", "2.3")
def test_e70_spares_whole_sticks_rows_and_right_padding() -> None:
    a, b = operand(4, 64), operand(4, 20)
    assert triggered(call_of("aten.cat.default", [a, b], -1)) == []
    assert triggered(call_of("aten.cat.default", [b, b], 0)) == []
    assert triggered(call_of("aten.constant_pad_nd.default", b, [64, 44], 0.0)) == []
    assert triggered(call_of("aten.constant_pad_nd.default", b, [0, 5, 3, 0], 0.0)) == []
    assert triggered(call_of("aten.slice_scatter.default", a, b, 0, 3, 7)) == []
    assert triggered(call_of("aten.slice_scatter.default", a, b)) == []


@pytest.mark.fact("E-70")
def test_e70_is_of_august_and_september() -> None:
    written = call_of("aten.cat.default", [operand(4, 20), operand(4, 20)], 1)
    assert profiles_with(written, "E-70") == SEPTEMBER_TOO


# --- E-35 in eager code
@pytest.mark.fact("E-35")
def test_e35_an_eager_call_reads_a_view_from_the_start_of_its_stick(use: Any) -> None:
    x = halves(4, 256)
    device = x.to("spyre")
    torch.testing.assert_close((device[:, 70:134] * 1).cpu().float(), x.float()[:, 64:128], atol=2e-3, rtol=2e-3)
    torch.testing.assert_close((device[:, 70] + 0).cpu().float(), x.float()[:, 64], atol=2e-3, rtol=2e-3)


@pytest.mark.fact("E-35")
def test_e35_an_eager_call_reads_whole_sticks_and_rows_right(use: Any) -> None:
    x, narrow = halves(4, 256), halves(4, 100)
    torch.testing.assert_close((x.to("spyre")[:, 64:96] * 1).cpu().float(), x.float()[:, 64:96], atol=2e-3, rtol=2e-3)
    torch.testing.assert_close((narrow.to("spyre")[1:] * 1).cpu().float(), narrow.float()[1:], atol=2e-3, rtol=2e-3)
    torch.testing.assert_close((narrow.to("spyre")[3] * 1).cpu().float(), narrow.float()[3], atol=2e-3, rtol=2e-3)
