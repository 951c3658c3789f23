"""Reproducers: scripts of torch and the device's package only, short, seeded, with a signature that can be compared."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest
import torch

from agents.types import Failure, FailureKind
from pipeline.diagnosis.reproducer.data import with_synthetic_values
from pipeline.diagnosis.reproducer.refusals import guises
from pipeline.diagnosis.reproducer.script import LONGEST, Setting, script_for
from pipeline.diagnosis.reproducer.shrink import elements, shrunk
from pipeline.diagnosis.reproducer.signature import ErrorClass, Signature, of_error, of_raised, printed
from pipeline.diagnosis.wrong_values.programs import Input, Operation, Program, Ref

OP = "aten.layer_norm.default"


def program() -> Program:
    torch.manual_seed(0)
    x, w = torch.randn(2, 128, 256).transpose(0, 1) * 3 + 5, torch.ones(256)
    norm = Operation("v0", torch.ops.aten.layer_norm.default, (Ref("x0"), [256], Ref("x1")), {})
    return Program((norm,), (Input("x0", x, torch.float16), Input("x1", w, torch.float16)), ("v0",))


def failure(kind: FailureKind) -> Failure:
    return Failure(kind, OP, "modeling_x.py:7", "layers.*.norm", "text", scalars=("layout",), dtype_run="float16")


@pytest.mark.parametrize("kind", [FailureKind.WRONG_VALUES, FailureKind.LAYOUT, FailureKind.CPU_FALLBACK])
def test_a_script_is_short_python_that_imports_torch_and_one_device_package(kind: FailureKind) -> None:
    text = script_for(failure(kind), program(), Setting("m", "profile-ideal"), limit=0.01)
    assert len(text.splitlines()) < LONGEST
    imported = {a.name for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Import) for a in n.names}
    assert imported <= {"torch", "sim_backend", "operator", "os", "sys", "warnings"}
    assert "modeling_x.py:7" in text
    assert "profile-ideal" in text
    assert "manual_seed(0)" in text


def test_a_long_run_of_operations_is_packed_and_still_runs() -> None:
    norm = program()
    chain = [Operation(f"v{n}", torch.ops.aten.tanh.default, (Ref(f"v{n - 1}"),), {}) for n in range(1, 15)]
    long = Program((*norm.operations, *chain), norm.inputs, ("v14",))
    text = script_for(failure(FailureKind.WRONG_VALUES), long, Setting("m", "profile-ideal"), limit=0.01)
    assert len(text.splitlines()) < LONGEST
    build = next(n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == "build")
    names = {"torch": torch}
    exec(ast.unparse(build), names)
    run = names["build"](torch.float32, "cpu")  # type: ignore[operator]
    assert torch.equal(run(*[i.value for i in long.inputs]), long.on_cpu()[0])


def test_shrinking_takes_all_smaller_sizes_at_once_where_that_fails_too() -> None:
    asked: list[Program] = []
    smaller = shrunk(program(), lambda p: asked.append(p) or True)  # type: ignore[func-returns-value]
    assert len(asked) == 1
    assert tuple(smaller.inputs[0].value.shape) == (64, 2, 64)


def test_synthetic_values_keep_shape_strides_and_spread() -> None:
    drawn, given = with_synthetic_values(program()).inputs[0].value, program().inputs[0].value
    assert (drawn.shape, drawn.stride()) == (given.shape, given.stride())
    assert abs(drawn.mean() - given.mean()) < 0.1
    assert abs(drawn.std() - given.std()) < 0.1
    assert torch.equal(drawn, with_synthetic_values(program()).inputs[0].value)


def test_shrinking_keeps_what_the_failure_needs() -> None:
    smaller = shrunk(program(), lambda p: p.inputs[0].value.shape[-1] == 256 and p.on_cpu()[0].numel() > 0)
    assert tuple(smaller.inputs[0].value.shape) == (64, 2, 256)
    assert elements(smaller) < elements(program())


def test_a_larger_error_of_another_class_is_another_failure() -> None:
    assert of_error(OP, 0.3).same_as(of_error(OP, 4.0))
    assert of_error(OP, 0.09).same_as(of_error(OP, 0.12))
    assert not of_error(OP, 0.004).same_as(of_error(OP, 0.4))
    assert not of_error(OP, 0.3).same_as(of_error("aten.gelu.default", 0.3))
    assert not of_error(OP, float("nan")).same_as(of_error(OP, 0.3))


def test_what_a_script_prints_is_read_back() -> None:
    assert printed(f"warning: x\nwrong_values in {OP}: relative error 0.73\n") == of_error(OP, 0.73)
    assert printed(f"non_finite in {OP}: relative error nan\n") == of_error(OP, float("nan"))
    said = printed(f"Unsupported in {OP}: Spyre backend does not support: Unexpected stick expression")
    assert said == Signature(FailureKind.LAYOUT, OP, ErrorClass.RAISED)
    assert printed("Traceback (most recent call last):\nKeyError: 'x'") is None


def test_a_wrapped_exception_is_unwrapped() -> None:
    wrapper = RuntimeError("outer")
    wrapper.inner_exception = NotImplementedError("Could not run 'aten::x'")  # type: ignore[attr-defined]
    assert of_raised(OP, wrapper).kind is FailureKind.UNSUPPORTED_OP


def test_a_script_runs_and_is_silent_where_nothing_is_wrong() -> None:
    small = shrunk(program(), lambda p: p.on_cpu()[0].numel() > 0)
    text = script_for(failure(FailureKind.WRONG_VALUES), small, Setting("m", "profile-ideal"), limit=0.02)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-2000:]


def test_guises_take_away_the_other_reasons_of_a_refusal() -> None:
    q, mask = torch.randn(2, 4, 40, 32), torch.ones(2, 1, 40, 40, dtype=torch.bool)
    attend = torch.ops.aten.scaled_dot_product_attention.default
    operation = Operation("v0", attend, (Ref("x0"), Ref("x0"), Ref("x0"), Ref("x1")), {})
    inputs = (Input("x0", q, torch.float16), Input("x1", mask, torch.bool))
    found = [p.inputs for p in guises(Program((operation,), inputs, ("v0",)))]
    kinds = {(tuple(a.value.shape[-2:]), b.dtype) for a, b in found}
    assert kinds == {
        ((40, 32), torch.bool),
        ((40, 32), torch.float16),
        ((64, 64), torch.bool),
        ((64, 64), torch.float16),
    }
