"""The form of a patch: what is refused on the syntax tree, before any sandbox is begun."""

from __future__ import annotations

import pytest

from agents.drafters.llm.form import Form, check_module
from agents.errors import CandidateRefused

GOOD = '''"""Products instead of a power."""
import math

import torch

SCALE = math.sqrt(2.0 / math.pi)


def cube(x):
    return x * x * x


def forward(x):
    return 0.5 * x * (1.0 + torch.tanh(SCALE * (x + 0.044715 * cube(x))))
'''
APPLY = """
import types

import torch
from transformers.models.bert.modeling_bert import BertModel


class Split(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner


def apply(model):
    with torch.no_grad():
        for layer in model.encoder.layer:
            layer.attention = Split(layer.attention)
"""


def test_patches_of_both_forms_pass() -> None:
    check_module(GOOD, Form.ELEMENTWISE)
    check_module(APPLY, Form.MODEL)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def forward(x:", "does not parse"),
        ("x = 1\0", "does not parse"),
        ("def f(x):\n    return x", "defines 0 functions"),
        ("def forward(x):\n    return x\ndef forward(x):\n    return x", "defines 2 functions"),
        ("def forward(x, y=1):\n    return x", "exactly one argument"),
        ("def forward(*x):\n    return x", "exactly one argument"),
        ("import os\ndef forward(x):\n    return x", "'os' may not be imported"),
        ("from . import x\ndef forward(x):\n    return x", "may not be imported"),
        ("import transformers\ndef forward(x):\n    return x", "'transformers' may not be imported"),
        ("def forward(x):\n    import subprocess\n    return x", "'subprocess' may not be imported"),
        ("import torch.utils.data\ndef forward(x):\n    return x", "utils may not be used"),
        ("from torch import hub\ndef forward(x):\n    return x", "hub may not be used"),
        ("def forward(x):\n    open('/etc/passwd')\n    return x", "open may not be used"),
        ("def forward(x):\n    return eval('x')", "eval may not be used"),
        ("def forward(x):\n    return x.__class__", "__class__ may not be used"),
        ("def forward(x):\n    return '{0.__class__}'.format(x)", "__class__ may not be used"),
        ("def forward(x):\n    return getattr(x, 'a' + 'b')", "written out"),
        ("def forward(x):\n    return getattr(x, '__dict__')", "__dict__ may not be used"),
        ("import torch\ndef forward(x):\n    torch.save(x, 'f')\n    return x", "save may not be used"),
        ("import torch\ndef forward(x):\n    return torch.ops.aten.mul(x, x)", "ops may not be used"),
        ("N = 0\ndef forward(x):\n    global N\n    N += 1\n    return x", "Global has no place"),
        ("async def forward(x):\n    return x", "defines 0 functions"),
        ("def forward(x):\n    return x\nforward(1)", "may stand at the top"),
        ("while True:\n    pass\ndef forward(x):\n    return x", "may stand at the top"),
        ("def forward(x):\n" + "    x = x + x\n" * 1000 + "    return x", "nodes"),
    ],
)
def test_what_no_patch_needs_is_refused_with_its_line(code: str, said: str) -> None:
    with pytest.raises(CandidateRefused, match=said):
        check_module(code, Form.ELEMENTWISE)


def test_code_nested_without_end_is_refused_and_harms_nobody() -> None:
    with pytest.raises(CandidateRefused):
        check_module("def forward(x):\n    return " + "(" * 5000 + "x" + ")" * 5000, Form.ELEMENTWISE)


def test_at_most_five_findings_are_told() -> None:
    with pytest.raises(CandidateRefused) as caught:
        check_module("\n".join(f"import os{n}" for n in range(50)), Form.ELEMENTWISE)
    assert str(caught.value).count(";") == 4
