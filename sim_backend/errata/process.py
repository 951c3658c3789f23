"""Defects of a process or a whole bundle: E-53 (recompile limit), E-54 (page fault), E-55 (length), E-59 (complex)."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from sim_backend.errata.rule import Abort, Call, Crash, Operand, Rule
from sim_backend.profiles import Profile, split_op

ARITHMETIC = frozenset(f"aten.{name}" for name in ("add", "sub", "mul", "div", "pow", "rsub"))
BUNDLE_ABORT = Abort("Illegal ddl", "shape_limit")


# --- E-53
# Eager operations that are a compiled function each (facts 3.1); moves, factories and fallbacks are not.
COMPILED = frozenset(
    f"aten.{name}"
    for name in (
        "mm", "silu", "mish", "abs", "add", "bitwise_not", "logical_not", "bmm", "cat", "div", "exp", "floor",
        "index_select", "log", "mean", "mul", "reciprocal", "neg", "relu", "rsqrt", "sigmoid", "_softmax", "stack",
        "sum", "sqrt", "tanh", "sub", "addmm", "eq", "le", "ne", "ge", "gt", "lt", "amax", "maximum", "minimum", "pow",
        "linalg_vector_norm", "where", "clamp", "constant_pad_nd", "embedding",
    )
)  # fmt: skip


class CompiledCalls:
    """The distinct eager calls of this process: each is one compiled instance (facts 3.1); Dynamo limits their sum."""

    def __init__(self) -> None:
        self.seen: set[Any] = set()

    def note(self, profile: Profile, op: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Count a call if its operation is a compiled one. Raises RecursionError for a new one past the limit."""
        if split_op(op)[0] not in COMPILED:
            return
        leaves, structure = tree_flatten((args, dict(kwargs)))
        key = (op, str(structure), *map(_guarded, leaves))
        if key in self.seen:
            return
        limit = int(profile.errata["E-53"]["limit"])
        if len(self.seen) >= limit:
            raise RecursionError(
                f"maximum recursion depth exceeded: {op} is call {limit + 1} to be compiled, past "
                f"torch._dynamo.config.accumulated_recompile_limit ({limit})"
            )
        self.seen.add(key)


def _guarded(value: Any) -> Any:
    # What a compiled instance is specialised to: sizes, strides and dtypes of tensors, everything else by value.
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), tuple(value.stride()), value.dtype
    return repr(value)


CALLS = CompiledCalls()


# --- E-54
def _negated_slice(profile: Profile, call: Call) -> str | None:
    x = call.operands[0]
    is_fixed = profile.content["cut_date"] > profile.errata["E-54"]["page_fault_until"]
    cut_on_host = "aten.slice" in x.views and profile.cell("aten.slice.Tensor", "compiled") == "F"
    if is_fixed or cut_on_host or not x.graph_input or _elements(x) == x.extent:
        return None
    return f"RAS::CBRB::ControlBlockSoftFail: neg of a view of {list(x.shape)} in a storage of {x.extent}"


def _elements(operand: Operand) -> int:
    return torch.Size(operand.shape).numel()


# --- E-55
def bundle_problem(profile: Profile, nodes: int) -> str | None:
    """E-55: why a bundle of `nodes` device operations is too long; None if it is not, or the defect is off."""
    parameters = profile.errata.get("E-55")
    if parameters is None or nodes <= int(parameters["longest_bundle"]):
        return None
    return f"a bundle of {nodes} operations, more than {parameters['longest_bundle']}"


# --- E-59
def _becomes_complex(profile: Profile, call: Call) -> str | None:
    others = [a for a in call.args if isinstance(a, complex)]
    if others or any(o.dtype.is_complex for o in call.operands):
        return f"{call.op} makes complex numbers of real ones"
    return None


RULES: tuple[Rule, ...] = (
    Rule("E-54", frozenset(["aten.neg"]), _negated_slice, Crash(signal.SIGSEGV)),
    Rule("E-59", ARITHMETIC, _becomes_complex, Crash(signal.SIGFPE)),
)
