"""What a defect rule is: the call it looks at, when it triggers, and what happens then.

One rule serves eager calls and compiled graphs. `applies` sees facts about a call, never values, so that it can be
decided at code generation; only the function of a `Wrong` effect sees values, at run time.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from sim_backend.errors import Unsupported
from sim_backend.profiles import Profile

Form = Literal["eager", "compiled"]
RefusalKind = Literal[
    "unsupported_op", "unsupported_dtype", "layout", "shape_limit", "dynamic_shape", "graph_break", "runtime_abort"
]
DXP_COMMAND = ("dxp_standalone", "--bundle", "-d", "sdsc_fused")


# --- calls
@dataclass(frozen=True)
class Operand:
    """A tensor of a call: `stride` and `offset` in elements, `extent` the elements of its storage.

    `graph_input` is true if its buffer comes from outside the graph (always, for eager calls). `views` are the packets
    of the views that lead from its buffer to it and `base` that buffer's shape; eager calls do not know them. `made_by`
    are the operations that lead to it, last first, along first operands, up to three (compiled only).
    """

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    extent: int
    graph_input: bool
    views: tuple[str, ...] = ()
    base: tuple[int, ...] = ()
    made_by: tuple[str, ...] = ()

    @property
    def is_contiguous(self) -> bool:
        """True if the strides are the default ones of the shape; dimensions of size 1 do not count."""
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.stride), strict=True):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return True

    @property
    def is_half(self) -> bool:
        """True for what the device keeps as DL16."""
        return self.dtype in (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Call:
    """One call of an ATen operation.

    `op` is the overload ("aten.ne.Scalar"), `original` the one it was decomposed from (the same, if it was not).
    `args` and `kwargs` hold an Operand for each tensor; `operands` are those in order; `result` is None if the result
    is not one tensor or not known before the call (eager). `fused`: the graph has other device operations; `beside` are
    the packets in it. `context`: words on the call that only its graph shows (compiler.context). `read_by` are the
    packets that read the result, past pointwise operations and views; "output" is the graph's end.
    """

    op: str
    original: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    operands: tuple[Operand, ...]
    result: Operand | None
    form: Form
    fused: bool
    context: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    read_by: tuple[str, ...] = ()


# --- effects
@dataclass(frozen=True)
class Refuse:
    """The compiler refuses: "Spyre backend does not support: <thing>", the thing being `text` or the detail."""

    kind: RefusalKind
    text: str = ""

    def error(self, detail: str) -> Exception:
        """What is raised."""
        return Unsupported(self.text or detail)

    def message(self, detail: str) -> str:
        """The text of what is raised."""
        return f"Spyre backend does not support: {self.text or detail}"


@dataclass(frozen=True)
class Abort:
    """The backend compiler dies; `backend_string` is what it prints before (facts 3.7), "" if that is not known."""

    backend_string: str
    kind: RefusalKind = "runtime_abort"

    def error(self, detail: str) -> Exception:
        """What is raised; the backend's string goes to stderr, as the real one's does."""
        if self.backend_string:
            sys.stderr.write(f"{self.backend_string}\n")
        return subprocess.CalledProcessError(-signal.SIGABRT, list(DXP_COMMAND), stderr=self.backend_string)

    def message(self, detail: str) -> str:
        """The text of what is raised, with the backend's."""
        died = subprocess.CalledProcessError(-signal.SIGABRT, list(DXP_COMMAND))
        return f"CalledProcessError: {died} {self.backend_string}".rstrip()


@dataclass(frozen=True)
class Raise:
    """A Python exception with `text` (or the detail) as its message."""

    exception: type[Exception]
    text: str = ""
    kind: RefusalKind = "unsupported_op"

    def error(self, detail: str) -> Exception:
        """What is raised."""
        return self.exception(self.message(detail))

    def message(self, detail: str) -> str:
        """The text of what is raised."""
        return self.text or detail


@dataclass(frozen=True)
class Crash:
    """The process is killed by `signal`: only where the erratum says crash."""

    signal: int
    kind: RefusalKind = "runtime_abort"

    def error(self, detail: str) -> Exception:
        """Does not return."""
        os.kill(os.getpid(), self.signal)
        raise SystemExit(128 + self.signal)

    def message(self, detail: str) -> str:
        """What a report says of it."""
        return f"the process dies of {signal.Signals(self.signal).name}: {detail}"


@dataclass(frozen=True)
class Unimplemented:
    """`operation` has no implementation: eager calls raise; compiled, a warning, and the error at the first call."""

    operation: str
    kind: RefusalKind = "unsupported_op"

    def error(self, detail: str) -> Exception:
        """What a call raises."""
        return RuntimeError(self.message(detail))

    def message(self, detail: str) -> str:
        """The text of what a call raises."""
        return f"Invoked sdsc_fused_{self.operation}_0 which contains unimplemented operation {self.operation}"


WrongFunction = Callable[[torch.Tensor, Sequence[torch.Tensor], Call, Mapping[str, Any]], torch.Tensor]


@dataclass(frozen=True)
class Wrong:
    """The result is replaced by `function(result, inputs, call, parameters)`.

    Called at run time with CPU tensors, DL16 as fp32; pure; a module-level function of `sim_backend.errata`. Of an
    operation with several results the first is replaced. The parameters are those of the profile and what `derived`
    takes from the rest of it. In graphs, `reaches` adds inputs: (0, 1) is the second argument of the first argument.
    """

    function: WrongFunction
    reaches: tuple[tuple[int, ...], ...] = ()
    derived: Callable[[Profile], Mapping[str, Any]] | None = None

    def parameters(self, profile: Profile, erratum: str) -> dict[str, Any]:
        """What the function is handed."""
        plain: dict[str, Any] = profile.to_dict()["errata"][erratum]
        return {**plain, **(self.derived(profile) if self.derived else {})}


@dataclass(frozen=True)
class Within:
    """The native operation itself (attention, LayerNorm) computes wrongly: it is handed `parameters(profile, call)`.

    For defects inside an operation, whose result alone cannot be made wrong afterwards.
    """

    parameters: Callable[[Profile, Call], Any]


Refusing = Refuse | Abort | Raise | Crash | Unimplemented
Effect = Refusing | Wrong | Within


@dataclass(frozen=True)
class Rule:
    """When the defect `erratum` triggers on calls of the operations `ops` ("aten.ne"), and its effect.

    `applies` returns the detail if it triggers and None if not. It is asked only if the profile has the erratum, and
    of an operation that falls back to the CPU only if the rule comes `before_fallback`.
    `by_value`: the call can trigger it, but values decide (an infinity in a mask), so it is no prediction.
    """

    erratum: str
    ops: frozenset[str]
    applies: Callable[[Profile, Call], str | None]
    effect: Effect
    before_fallback: bool = False
    by_value: bool = False


@dataclass(frozen=True)
class Evaluation:
    """The outcome of a rule on a call: `detail` is what triggered it, "" if nothing did."""

    erratum: str
    applies: bool
    op: str
    detail: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for audits."""
        return {"id": self.erratum, "applies": self.applies, "op": self.op, "detail": self.detail}


@dataclass(frozen=True)
class Triggered:
    """A rule that applies to a call."""

    rule: Rule
    call: Call
    detail: str


@dataclass
class Verdict:
    """Every rule that was asked about one call, and those that triggered."""

    evaluations: list[Evaluation] = field(default_factory=list)
    triggered: list[Triggered] = field(default_factory=list)
