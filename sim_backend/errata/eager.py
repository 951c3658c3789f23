"""Defect rules on single eager calls: those of compiled graphs, for eager operations are compiled (facts 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from sim_backend.errata.rule import Call, Operand, Refusing, Triggered, Verdict, Wrong
from sim_backend.errata.table import has_rules, judge
from sim_backend.profiles import Profile, active


def apply(op: str, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]) -> Any:
    """What the eager call `op` ("aten.pow.Tensor_Scalar") gives on the active profile; `run` computes it rightly.

    Raises what a triggered rule refuses with.
    """
    profile = active()
    if not has_rules(profile, op):
        return run()
    found = judge_call(profile, op, args, kwargs).triggered
    for one in found:
        if isinstance(one.rule.effect, Refusing):
            raise one.rule.effect.error(one.detail)
    wrong = [one for one in found if isinstance(one.rule.effect, Wrong)]
    return _spoiled(profile, wrong, tree_leaves((args, kwargs)), run) if wrong else run()


def judge_call(profile: Profile, op: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Verdict:
    """Ask every rule about an eager call; tensors may be fake. `out` arguments are no operands."""
    named = {k: v for k, v in kwargs.items() if k != "out"}
    facts_args, facts_kwargs = tree_map(_described, (tuple(args), named))
    operands = tuple(v for v in tree_leaves((facts_args, facts_kwargs)) if isinstance(v, Operand))
    return judge(profile, Call(op, op, facts_args, facts_kwargs, operands, None, "eager", False))


def _described(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    extent = value.untyped_storage().nbytes() // value.dtype.itemsize
    return Operand(tuple(value.shape), tuple(value.stride()), value.storage_offset(), value.dtype, extent, True)


def _spoiled(profile: Profile, wrong: list[Triggered], values: list[Any], run: Callable[[], Any]) -> Any:
    """The result of `run` with the wrong values of `wrong`; inputs are read first, for `run` may write to them."""
    from sim_backend.device import ext

    tensors = [v for v in values if isinstance(v, torch.Tensor)]
    inputs = [ext.to_compute(t).clone() if t.device.type == "spyre" else t for t in tensors]
    results = run()
    first = results[0] if isinstance(results, tuple | list) else results
    value = ext.to_compute(first).clone()
    for one in wrong:
        assert isinstance(one.rule.effect, Wrong)
        value = one.rule.effect.function(value, inputs, one.call, profile.errata[one.rule.erratum])
    if any(first is t for t in tensors):  # an in-place or out form
        ext.write_compute(first, value)
        return results
    replaced = ext.from_compute(value, first.dtype)
    return (replaced, *results[1:]) if isinstance(results, tuple | list) else replaced
