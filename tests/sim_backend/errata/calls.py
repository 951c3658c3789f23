"""Calls as the rules see them, made without a tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from sim_backend.errata.rule import Call, Form, Operand
from sim_backend.errata.table import judge
from sim_backend.profiles import load_profile

PROFILES = ("profile-2025-11", "profile-2026-04", "profile-2026-08", "profile-2026-09", "profile-ideal")


def operand(*shape: int, dtype: torch.dtype = torch.float16, graph_input: bool = True, **facts: Any) -> Operand:
    """A contiguous operand that fills its storage, except for the facts given."""
    stride = tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))
    known = {"stride": stride, "offset": 0, "extent": math.prod(shape), **facts}
    return Operand(shape=shape, dtype=dtype, graph_input=graph_input, **known)


def call_of(op: str, *args: Any, form: Form = "compiled", result: Operand | None = None, **facts: Any) -> Call:
    """A call of the overload `op`."""
    operands = tuple(a for a in tree_leaves(args) if isinstance(a, Operand))
    known = {"original": op, "kwargs": {}, "fused": True, **facts}
    return Call(op=op, args=args, operands=operands, result=result, form=form, **known)


def triggered(call: Call, profile: str = "profile-2026-08", overrides: dict[str, Any] | None = None) -> list[str]:
    """The defects that the call meets."""
    return [t.rule.erratum for t in judge(load_profile(profile, overrides), call).triggered]


def profiles_with(call: Call, erratum: str, among: Sequence[str] = PROFILES) -> list[str]:
    """The profiles in which the call meets `erratum`, by the last word of their names."""
    return [name.removeprefix("profile-") for name in among if erratum in triggered(call, name)]
