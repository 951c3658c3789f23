"""Code that could behave differently once it ships is refused; honest code of the usual shapes is not."""

from __future__ import annotations

import pytest

from pipeline.verification.replay import DocumentRefused, check_code

HONEST = {
    "weights": """
def apply(model):
    for layer in model.encoder.layer:
        layer.output.dense.weight = torch.nn.Parameter(layer.output.dense.weight * 2, requires_grad=False)
""",
    "forward by a helper": """
import types

def forward(self, x):
    total = x * x
    total += x
    return total

def patch(module):
    module.forward = types.MethodType(forward, module)

def apply(model):
    for module in model.modules():
        if type(module).__name__ == "NewGELUActivation":
            patch(module)
""",
    "a module of its own": """
import math

class Gelu(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        parts = []
        parts.append(x * self.scale)
        return torch.cat(parts)

def apply(model):
    model.config.hidden_act = "gelu"
    model.encoder.layer[0].intermediate.intermediate_act_fn = Gelu(math.sqrt(2.0))
""",
}
WATCHFUL = {
    "torch.compiler.is_exporting()": "compiler|is_exporting",
    "torch._dynamo.is_compiling()": "_dynamo|is_compiling",
    "getattr(torch, 'comp' + 'iler')": "written out",
    "getattr(torch, 'is_tracing')": "is_tracing",
    "type(x).__name__ == 'FakeTensor'": "FakeTensor",
    "__import__('sys')": "__import__",
    "x.data_ptr()": "data_ptr",
    "x.untyped_storage()": "untyped_storage",
}
STATES = (
    "calls = [0]\ndef forward(x):\n    calls[0] += 1\n    return x",
    "calls = []\ndef forward(x):\n    calls.append(1)\n    return x",
    "n = 0\ndef forward(x):\n    global n\n    n += 1\n    return x",
    "def forward(self, x):\n    self.calls = self.calls + 1\n    return x",
    "it = iter(range(9))\ndef forward(x):\n    next(it)\n    return x",
)


@pytest.mark.parametrize("name", HONEST)
def test_honest_code_is_clean(name: str) -> None:
    check_code(HONEST[name])


@pytest.mark.parametrize("expression", WATCHFUL)
def test_code_that_asks_whether_it_is_watched_is_refused(expression: str) -> None:
    forward = f"    def forward(x):\n        return x if {expression} else -x\n"
    source = f"def apply(model):\n{forward}    model.forward = forward\n"
    with pytest.raises(DocumentRefused, match=WATCHFUL[expression]):
        check_code(source)


@pytest.mark.parametrize("forward", STATES)
def test_a_forward_that_keeps_state_is_refused(forward: str) -> None:
    with pytest.raises(DocumentRefused, match="keeps state"):
        check_code(f"{forward}\n\ndef apply(model):\n    model.forward = forward\n")


@pytest.mark.parametrize("source", ["import os", "from sys import modules", "import torch.export", "def apply(model:"])
def test_other_modules_and_broken_code_are_refused(source: str) -> None:
    with pytest.raises(DocumentRefused, match=r"may not be|does not parse"):
        check_code(source)


SHARED = (
    "torch.allclose = lambda *a, **k: True",
    "torch.nn.functional.gelu = lambda x: x",
    "F = torch.nn.functional\n    F.gelu = lambda x: x",
    "import math as m\n    m.sqrt = abs",
    "type(model).forward = lambda self, x: x",
    "kind = type(model.encoder)\n    kind.forward = lambda self, x: x",
    "model.__class__.forward = lambda self, x: x",
    "model.__class__ = torch.nn.Module",
)


@pytest.mark.parametrize("statement", SHARED)
def test_code_that_changes_what_others_use_is_refused(statement: str) -> None:
    with pytest.raises(DocumentRefused, match="assigns"):
        check_code(f"def apply(model):\n    {statement}\n")


@pytest.mark.parametrize("name", ["set_grad_enabled", "set_flush_denormal", "set_float32_matmul_precision", "library"])
def test_code_that_sets_global_state_is_refused(name: str) -> None:
    with pytest.raises(DocumentRefused, match=name):
        check_code(f"def apply(model):\n    torch.{name}(0)\n")
