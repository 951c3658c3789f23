"""E-71 and E-73: reads by index for which no layout is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor.exc import InductorError

from sim_backend import capability
from sim_backend.errors import Unsupported

from .calls import call_of, operand, profiles_with, triggered

IDS = torch.zeros(2, 64, dtype=torch.int64)


def lookup(rows: int) -> Any:
    return call_of("aten.embedding.default", operand(rows, 128), operand(2, 64, dtype=torch.int64))


@pytest.mark.fact("E-71", "3.7")
def test_e71_a_table_of_one_row_is_refused_by_name(use: Any, run: Callable[..., Any]) -> None:
    text = r"\(aten\.embedding\.default\): no supported output layout found .* output size=\[2, 64, 128\]"
    with pytest.raises(InductorError, match=text):
        run(torch.nn.functional.embedding, IDS, torch.ones(1, 128).half())
    with pytest.raises(Unsupported, match=text):
        torch.nn.functional.embedding(IDS.to("spyre"), torch.ones(1, 128).half().to("spyre"))


class Typed(torch.nn.Module):
    """A model with a token-type table of `types` rows."""

    def __init__(self, types: int) -> None:
        super().__init__()
        self.token_type_embeddings = torch.nn.Embedding(types, 64)

    def forward(self, token_type_ids: torch.Tensor) -> torch.Tensor:
        return self.token_type_embeddings(token_type_ids)


@pytest.mark.fact("E-71", "6.8")
def test_e71_a_report_names_the_operation_and_its_module() -> None:
    (failure,) = capability(Typed(1), {"token_type_ids": IDS}, dtype=torch.float16).failures
    assert (failure.op, failure.kind, failure.module) == ("aten.embedding.default", "layout", "token_type_embeddings")


@pytest.mark.fact("E-71", "6.8")
def test_e71_the_published_answer_passes(use: Any, run: Callable[..., Any]) -> None:
    x, table = torch.ones(2, 64, 128).half(), torch.ones(1, 128).half()
    assert torch.equal(run(lambda a, w: a + w[0], x, table), torch.full((2, 64, 128), 2.0))


@pytest.mark.fact("E-71")
def test_e71_two_rows_are_legal_and_profiles_are_those_listed() -> None:
    assert triggered(lookup(2)) == []
    assert not capability(Typed(2), {"token_type_ids": IDS}, dtype=torch.float16).failures
    assert profiles_with(lookup(1), "E-71") == ["2026-08", "2026-09"]


def selected(base: tuple[int, ...], result: tuple[int, ...]) -> Any:
    source = operand(*base[1:], base=base, views=("aten.select",))
    return call_of("aten.select.int", source, 0, 0, result=operand(*result))


@pytest.mark.fact("E-73")
def test_e73_rows_of_a_rank_6_result_are_refused(use: Any, run: Callable[..., Any]) -> None:
    def rotated(q: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        six = q[:, :, :, None] * table
        return six[:, :, :, 0, 0] * 1

    with pytest.raises(InductorError, match=r"no supported output layout found"):
        run(rotated, torch.ones(2, 4, 2, 2, 64).half(), torch.ones(4, 1, 2, 2, 64).half())


@pytest.mark.fact("E-73")
def test_e73_needs_rank_6_and_a_result_of_rank_4() -> None:
    assert triggered(selected((2, 4, 2, 2, 2, 64), (2, 4, 2, 64))) == ["E-73"]
    assert triggered(selected((2, 4, 2, 2, 2, 64), (2, 4, 2, 2, 64))) == []
    assert triggered(selected((2, 4, 2, 2, 64), (2, 4, 2, 64))) == []
    assert profiles_with(selected((2, 4, 2, 2, 2, 64), (2, 4, 2, 64)), "E-73") == ["2026-08", "2026-09"]
