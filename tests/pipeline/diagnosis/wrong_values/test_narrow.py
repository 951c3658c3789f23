"""The search in the dtype that the loud causes ask for, on the CPU alone."""

from __future__ import annotations

from typing import Any

import torch

from adapters import adapt
from adapters.patches.overflow_looks import both_parts
from adapters.patches.registry import in_order
from adapters.runner import forward_of
from adapters.structure import find_blocks
from agents.types import Diagnosis, Failure, FailureKind, PatternUse
from pipeline.diagnosis.wrong_values.blocks import BlockGraph, graph_of, record_block_calls
from pipeline.diagnosis.wrong_values.narrow import narrow_dtype, searched_in
from pipeline.execution.diagnose_run import CURES_ON_CPU, search_dtype
from tests.adapters.patches.families import family
from tests.adapters.patches.test_families import P, inputs_of


def graph(dtype: torch.dtype, *more: dict[str, Any]) -> BlockGraph:
    """Of the first block of a T5 encoder, its bias made in front of it."""
    model = family("t5")
    cures = in_order([P("P40"), P("P48"), *more])
    assert {p["pattern"] for p in cures} <= CURES_ON_CPU
    blocks = [(b.path, b.module) for b in find_blocks(model)]
    with torch.no_grad(), adapt(model, patches=cures, device="cpu", dtype=torch.float32, compile=False):
        calls = record_block_calls(model, blocks, inputs_of(model))
        with searched_in(dtype):
            return graph_of(calls[0])


def test_code_for_float16_only_is_not_searched_in_bfloat16() -> None:
    """T5 looks for infinities in float16, which the device refuses: then nothing behind it is seen."""
    assert any(o.op == "aten.isinf.default" for o in graph(torch.float16).operations)
    found = graph(torch.bfloat16)
    assert not any(o.op == "aten.isinf.default" for o in found.operations)
    assert narrow_dtype() is torch.float16


def test_without_its_look_for_infinities_a_block_is_searched_in_float16() -> None:
    assert not any(o.op == "aten.isinf.default" for o in graph(torch.float16, P("P66")).operations)


def test_a_program_runs_in_the_dtype_of_its_search_with_the_values_of_float16() -> None:
    found = graph(torch.bfloat16)
    place = next(n for n, o in enumerate(found.operations) if o.op == "aten.linear.default")
    with searched_in(torch.bfloat16):
        program = found.single(place)
    assert program is not None
    assert program.run_dtype is torch.bfloat16
    assert {i.dtype for i in program.inputs} == {torch.bfloat16}
    assert all(torch.equal(i.value.half().float(), i.value) for i in program.inputs[1:])
    assert any(not torch.equal(i.value.bfloat16().float(), i.value) for i in program.inputs[1:])


def test_what_hooks_made_in_front_of_a_block_is_not_made_in_it_again() -> None:
    """P48 hands the bias over: the graph has no logarithm of distances."""
    assert not any(o.op in ("aten.log.default", "aten.arange.default") for o in graph(torch.bfloat16).operations)


def test_the_search_has_the_dtype_that_a_loud_cause_asks_for() -> None:
    def asking(dtype: str) -> Diagnosis:
        return Diagnosis(
            Failure(FailureKind.UNSUPPORTED_OP, "x", "m.py:1", "", ""), (PatternUse("P56", {"dtype": dtype}),)
        )

    assert search_dtype([]) is torch.float16
    assert search_dtype([asking("float16")]) is torch.float16
    assert search_dtype([asking("float16"), asking("bfloat16")]) is torch.bfloat16


def test_a_block_that_a_cure_gave_a_forward_of_its_own_runs_that_one_on_the_device() -> None:
    """T5 in float16 was refused for the look for infinities that P66 had taken out."""
    model = family("t5")
    with torch.no_grad(), adapt(model, patches=[P("P66")], device="cpu", dtype=torch.float32, compile=False):
        block = find_blocks(model)[0].module
        assert forward_of(block).__code__ is both_parts.__code__
    assert forward_of(block) is type(block).forward
