"""An entry of the corpus: a candidate that must be refused and its honest twin, or an honest candidate of a pattern."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Patches = tuple[dict[str, Any], ...]

HELPERS = {
    "each": """
def each(model, *names):
    return [m for m in model.modules() if type(m).__name__ in names]
""",
    "replace": """
def replace(module, forward):
    module.forward = types.MethodType(forward, module)
""",
    "on_result": """
def on_result(module, change):
    stock = module.forward
    module.forward = lambda *args, **kwargs: change(stock(*args, **kwargs))
""",
    "on_output": """
def on_output(model, change):
    stock = model.forward
    def forward(*args, **kwargs):
        out = stock(*args, **kwargs)
        return type(out)(last_hidden_state=change(out.last_hidden_state))
    model.forward = forward
""",
    "parameter": """
def parameter(value):
    return torch.nn.Parameter(value, requires_grad=False)
""",
}
"""Functions that sources share; those that a source calls are written in front of it, so that each stands alone."""

HEAD = "import math\nimport types\n\nF = torch.nn.functional\n"


class Kind(StrEnum):
    """Class of an entry; rates are given per class. Stored text."""

    OUTPUTS = "outputs"
    STATE = "state"
    SIDE_EFFECTS = "side effects"
    PLACE = "place and dtype"
    CHECKER = "attacks on the checker"
    PROCESS = "processes and files"
    DOCUMENT = "document"
    MATHEMATICS = "mathematics"
    PARAMETERS = "library patches with wrong parameters"
    DEVICE = "the same mathematics, wrong on the device"
    PATTERNS = "honest, by pattern"


class Stage(StrEnum):
    """Where a candidate is expected to be refused, in the order of a verification. Stored text."""

    SOURCE = "source"
    CAPTURE = "capture"
    VALIDATION = "validation"
    STRUCTURE = "structure"
    REACHABILITY = "reachability"
    BINDING = "binding"
    EQUIVALENCE = "equivalence"
    ORACLE = "oracle"
    CONTROLS = "controls"
    DEVICE = "device"
    GATE = "gate"


@dataclass(frozen=True)
class Cheat:
    """A wrong candidate and its twin, the same technique used honestly.

    `shows` names the check (tests/exploits/corpus) that proves in plain torch that the cheat does what it claims;
    `stages` are where it may be refused and `says` a pattern that the reason must match.
    """

    name: str
    kind: Kind
    subject: str
    cheat: Patches
    honest: Patches
    shows: str
    stages: tuple[Stage, ...]
    says: str


@dataclass(frozen=True)
class Honest:
    """A candidate that must be accepted: a pattern of the catalogue on a stock model.

    With a `pooling` (its sentence-transformers name) it is verified whole, as a checkpoint that declares it.
    """

    name: str
    pattern: str
    subject: str
    patches: Patches
    bound: float | None = None
    pooling: str = ""


def code(source: str, bound: float | None = None) -> Patches:
    """Drafted code with one function `apply(model)`; `bound` is its claim, None for exact."""
    text = textwrap.dedent(source).strip() + "\n"
    helpers = [helper for name, helper in HELPERS.items() if f"{name}(" in text]
    full = "\n".join([HEAD, *helpers, text])
    patch: dict[str, Any] = {"pattern": "code", "parameters": {"source": full}}
    return (patch if bound is None else {**patch, "exactness": "bounded", "bound": bound},)


def library(pattern: str, **parameters: Any) -> dict[str, Any]:
    """A patch of the pattern library."""
    return {"pattern": pattern, "parameters": parameters}
