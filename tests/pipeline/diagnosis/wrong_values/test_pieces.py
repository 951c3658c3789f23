"""The pieces of the search, on the CPU alone: rounding, comparison, programs, bisection, resizing."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from agents.types import FailureKind
from pipeline.diagnosis.wrong_values.blocks import BlockCall, Untraceable, first_calls, graph_of
from pipeline.diagnosis.wrong_values.compare import Difference, difference, ideal_results
from pipeline.diagnosis.wrong_values.device_runs import filled_as
from pipeline.diagnosis.wrong_values.experiments import experiments, is_mask, resized
from pipeline.diagnosis.wrong_values.fusion import first_holding
from pipeline.diagnosis.wrong_values.programs import Input, Program
from pipeline.diagnosis.wrong_values.reference import bad_reference, overflowing
from pipeline.diagnosis.wrong_values.rounding import Mode, ideal_run, rounded
from pipeline.diagnosis.wrong_values.suspects import suspects


class Half(torch.nn.Module):
    """A block whose second half is computed in fp32 and cast back, as RMSNorm is."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x).view(2, -1, 4, 4).transpose(1, 2)
        return (y.to(torch.float32) * 2).to(x.dtype)


def call() -> BlockCall:
    torch.manual_seed(0)
    block, x = Half().eval().requires_grad_(False), torch.randn(2, 3, 8)
    return BlockCall("layers.0", block, (x,), {}, block(x))


def test_rounding_keeps_ten_significant_bits() -> None:
    values = torch.tensor([1.0, 1.0 + 2**-10, 1.0 + 3 * 2**-10, -2.001, torch.inf])
    assert rounded(values).tolist() == [1.0, 1.0, 1.0 + 4 * 2**-10, -2.0, torch.inf]
    assert rounded(values, Mode.TRUNCATE).tolist() == [1.0, 1.0, 1.0 + 2 * 2**-10, -2.0, torch.inf]


def test_an_ideal_run_rounds_inputs_and_every_result() -> None:
    x = torch.full((4,), 1.0 + 2**-10)
    assert ideal_run(lambda t: t + 2**-9, [x], Mode.TRUNCATE) is not None
    out = ideal_run(lambda t: (t * 1.001) * 1.001, [torch.ones(4)])
    assert torch.equal(out, rounded(out))


def test_rounding_explains_an_error_of_its_own_size_and_nothing_larger() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(32, 64), torch.randn(64, 64)
    exact, ideal = x @ w, ideal_results(lambda a, b: a @ b, [x, w])
    assert not difference(ideal[0], exact, ideal).wrong
    shifted = exact.clone()
    shifted[:, -8:] = exact[:, :8]
    assert difference(shifted, exact, ideal).wrong
    assert not difference(exact, exact, ideal).wrong
    assert difference(exact * float("nan"), exact, ideal) == Difference(float("inf"), 0.0, finite=False)


def test_a_reference_that_is_not_finite_itself_blames_nobody() -> None:
    cpu = torch.tensor([1.0, torch.inf])
    assert not difference(torch.tensor([1.0, torch.nan]), cpu, [cpu]).wrong


def test_the_fill_of_a_mask_is_not_compared() -> None:
    cpu = torch.tensor([1.0, -3.4e38])
    assert not difference(torch.tensor([1.0, -65536.0]), cpu, [cpu]).wrong
    assert not difference(torch.tensor([1.0, torch.nan]), cpu, [cpu]).wrong
    assert difference(torch.tensor([2.0, -65536.0]), cpu, [cpu]).wrong
    truth = torch.tensor([True, False])
    assert difference(~truth, truth, [truth]).wrong


def test_a_program_computes_what_the_block_computes_and_keeps_its_casts() -> None:
    made = call()
    graph = graph_of(made)
    program = graph.segment(0, len(graph.operations))
    assert program is not None
    assert torch.allclose(program.on_cpu()[0], made.output, atol=2e-3)
    assert "torch.float32" in program.source()
    assert "half" in program.source()
    out = program.function(torch.float16, "cpu")(*[i.value.to(i.dtype) for i in program.inputs])
    assert out.dtype == torch.float16


def test_equal_operations_of_different_layers_have_one_signature() -> None:
    torch.manual_seed(1)
    other = Half().eval()
    x = torch.randn(2, 3, 8)
    programs = [graph_of(c).single(0) for c in (call(), BlockCall("layers.1", other, (x,), {}, other(x)))]
    assert programs[0] is not None
    assert programs[1] is not None
    assert programs[0].signature() == programs[1].signature()


def test_resizing_follows_a_size_through_operands_and_keeps_the_order_of_strides() -> None:
    graph = graph_of(call())
    linear = graph.single(0)
    assert linear is not None
    smaller = resized(linear, {8: 4})
    assert [tuple(i.value.shape) for i in smaller.inputs] == [(2, 3, 4), (16, 4), (16,)]
    assert smaller.on_cpu()[0].shape == (2, 3, 16)


def test_bisection_finds_a_border_even_if_the_claim_is_not_monotone() -> None:
    assert first_holding(lambda n: n >= 7, 0, 20) == 7
    found = first_holding(lambda n: n in {3, 4, 9, 10}, 0, 10)
    assert found in {3, 9}


def test_masks_are_told_from_other_operands() -> None:
    assert is_mask(torch.zeros(1, 1, 4, 4).bool())
    assert is_mask(torch.tensor([[0.0, -30_000.0]]))
    assert not is_mask(torch.randn(4, 4))


def test_an_overflow_of_float16_on_the_cpu_is_a_bad_reference_and_named_where_it_begins() -> None:
    made = call()
    assert bad_reference([made], "whole") is None
    made.block.linear.weight.mul_(1e5)  # type: ignore[union-attr, operator]
    large = BlockCall(made.path, made.block, made.args, {}, made.block(*made.args))
    found = bad_reference([made, large], "whole")
    assert found is not None
    assert (found.failure.kind, found.failure.op) == (FailureKind.CPU_REFERENCE, "aten.linear.default")
    assert not overflowing(torch.tensor([0.0, torch.finfo(torch.float32).min]))
    assert not overflowing(torch.tensor([0.0, torch.finfo(torch.float32).min / 2]))  # the fill of an fp32 mask


class ReadsValues(torch.nn.Module):
    """A block whose branch depends on values: no graph holds it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if bool(x.sum() > 0) else x


def test_a_block_that_cannot_be_traced_says_so() -> None:
    x = torch.ones(2, 3)
    with pytest.raises(Untraceable, match="ReadsValues"):
        graph_of(BlockCall("layers.0", ReadsValues(), (x,), {}, x))


def test_the_fill_of_an_fp32_mask_is_the_lowest_number_of_the_model_s_own_dtype() -> None:
    mask = torch.tensor([0.0, torch.finfo(torch.float32).min])
    assert filled_as(mask, torch.float16).tolist() == [0.0, torch.finfo(torch.float16).min]
    plain = torch.tensor([1.0, -30_000.0])
    assert filled_as(plain, torch.float16) is plain


def test_every_operation_that_is_off_is_suspected_at_once_and_a_fault_hides_none_behind_it(monkeypatch: Any) -> None:
    graph = graph_of(call())

    def spoiled(program: Any) -> list[torch.Tensor]:
        values = [v.clone() for v in program.on_cpu()]
        values[0] *= 2  # the linear; what follows is right for the operands it is given
        for n in range(1, len(values)):
            values[n] = values[n] * 2
        values[-1] += 1.0
        return values

    monkeypatch.setattr(Program, "on_device", spoiled)
    names = [graph.operations[n].op for n in suspects(graph)]
    assert names[0] == "aten.linear.default"
    assert len(names) == 2
    monkeypatch.setattr(Program, "on_device", lambda program: [v.clone() for v in program.on_cpu()])
    assert suspects(graph) == []


def test_behind_what_is_not_finite_the_rest_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The product's NaN spoils everything after it; fed with the CPU's values, the wrong multiplication shows too."""

    def on_device(program: Program) -> list[torch.Tensor]:
        if any(o.op == "aten.linear.default" for o in program.operations):
            return [torch.full_like(v, torch.nan) for v in program.on_cpu()]
        names = [o.name for o in program.operations]
        wrong = next(n for n, o in enumerate(program.operations) if o.op == "aten.mul.Tensor")
        shown = zip(program.outputs, program.on_cpu(), strict=True)
        return [v * 2 if names.index(n) >= wrong else v.clone() for n, v in shown]

    graph = graph_of(call())
    monkeypatch.setattr(Program, "on_device", on_device)
    names = [graph.operations[n].op for n in suspects(graph)]
    assert names == ["aten.linear.default", "aten.mul.Tensor"]


class Stack(torch.nn.Module):
    """Two blocks of one class, one of another, and a fourth that must not be reached."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.ReLU(), torch.nn.ReLU(), torch.nn.Tanh(), torch.nn.ReLU()])
        self.ran: list[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, layer in enumerate(self.layers):
            self.ran.append(number)
            x = layer(x)
        return x


def test_first_calls_run_no_further_than_the_last_class() -> None:
    model = Stack()
    blocks = [(f"layers.{n}", layer) for n, layer in enumerate(model.layers)]
    calls = first_calls(model, blocks, {"x": torch.randn(2, 3)})
    assert [c.path for c in calls] == ["layers.0", "layers.2"]
    assert model.ran == [0, 1, 2]
    assert not any(layer._forward_hooks for layer in model.layers)


def test_an_operation_names_the_views_it_reads_through() -> None:
    graph = graph_of(call())
    product = next(o for o in graph.operations if o.op.startswith("aten.mul"))
    cast = next(o for o in graph.operations if o.name in product.reads())
    assert [v.split(".")[1] for v in graph.views_before(cast)] == ["transpose", "view"]
    assert graph.views_before(product) == []


def test_an_offset_is_taken_away_and_strides_are_kept() -> None:
    x = torch.arange(24.0).reshape(2, 12)[:, 1::2]
    program = Program((), (Input("x", x, torch.float16),), ())
    first = next(e for e in experiments(program) if e.name == "offset")
    [moved] = first.program.inputs
    assert torch.equal(moved.value, x)
    assert (moved.value.stride(), moved.value.storage_offset()) == (x.stride(), 0)
    assert [e.name for e in experiments(program)][:2] == ["offset", "layout"]


def test_one_token_alone_is_tried_as_a_stick_of_tokens() -> None:
    shapes = {"q": (1, 3, 1, 256), "mask": (1, 1, 1, 1), "weight": (1, 8)}
    program = Program((), tuple(Input(n, torch.ones(s), torch.float16) for n, s in shapes.items()), ())
    changed = next(e for e in experiments(program) if e.name == "length")
    assert [tuple(i.value.shape) for i in changed.program.inputs] == [(1, 3, 64, 256), (1, 1, 64, 64), (1, 8)]
    two = Program((), (Input("q", torch.ones(1, 3, 2, 256), torch.float16),), ())
    assert "length" not in [e.name for e in experiments(two)]
