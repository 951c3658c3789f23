"""Defect rules on single eager calls: those of compiled graphs, for eager operations are compiled (facts 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from sim_backend.errata.process import CALLS
from sim_backend.errata.rule import Call, Operand, Refusing, Triggered, Verdict, Wrong
from sim_backend.errata.table import has_rules, judge
from sim_backend.profiles import Profile, active


def apply(
    op: str, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any], falls_back: bool = False
) -> Any:
    """What the eager call `op` ("aten.pow.Tensor_Scalar") gives on the active profile; `run` computes it rightly.

    Raises what a triggered rule refuses with.
    """
    profile = active()
    if profile.has("E-53") and not falls_back:
        CALLS.note(profile, op, args, kwargs)
    if not has_rules(profile, op, falls_back):
        return run()
    clean, facts = _clean_calls(profile), (op, falls_back, _facts(args), _facts(kwargs))
    if facts in clean:
        return run()
    found = judge_call(profile, op, args, kwargs, falls_back).triggered
    if not found:
        clean.add(facts)
        return run()
    for one in found:
        if isinstance(one.rule.effect, Refusing):
            raise one.rule.effect.error(one.detail)
    wrong = [one for one in found if isinstance(one.rule.effect, Wrong)]
    return _spoiled(profile, wrong, args, kwargs, run) if wrong else run()


@cache
def _clean_calls(profile: Profile) -> set[Any]:
    """Facts of the calls that no defect meets: asking the rules costs as much as a small operation."""
    return set()


def _facts(value: Any) -> Any:
    """All that a rule can see of an argument, hashable."""
    if isinstance(value, torch.Tensor):
        storage = value.untyped_storage().nbytes()
        return value.shape, value.stride(), value.storage_offset(), value.dtype, storage
    if isinstance(value, list | tuple):
        return tuple(map(_facts, value))
    if isinstance(value, dict):
        return tuple((k, _facts(v)) for k, v in value.items() if k != "out")
    return type(value), value if isinstance(value, Hashable) else repr(value)


def judge_call(
    profile: Profile, op: str, args: Sequence[Any], kwargs: Mapping[str, Any], falls_back: bool = False
) -> Verdict:
    """Ask every rule about an eager call; tensors may be fake. `out` arguments are no operands."""
    named = {k: v for k, v in kwargs.items() if k != "out"}
    facts_args, facts_kwargs = tree_map(_described, (tuple(args), named))
    operands = tuple(v for v in tree_leaves((facts_args, facts_kwargs)) if isinstance(v, Operand))
    return judge(profile, Call(op, op, facts_args, facts_kwargs, operands, None, "eager", False), falls_back)


def _described(value: Any) -> Any:
    return operand_of(value) if isinstance(value, torch.Tensor) else value


def operand_of(t: torch.Tensor) -> Operand:
    """The facts of a tensor of an eager call."""
    extent = t.untyped_storage().nbytes() // t.dtype.itemsize
    return Operand(tuple(t.shape), tuple(t.stride()), t.storage_offset(), t.dtype, extent, True)


def _spoiled(
    profile: Profile, wrong: list[Triggered], args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]
) -> Any:
    """The result of `run` with the wrong values of `wrong`; inputs are read first, for `run` may write to them."""
    from sim_backend.device import ext

    read = _tensors((args, {k: v for k, v in kwargs.items() if k != "out"}))
    inputs = [_with_storage(t) if t.device.type == "spyre" else t for t in read]
    results = run()
    first = results[0] if isinstance(results, tuple | list) else results
    value = ext.to_compute(first).clone()
    for one in wrong:
        assert isinstance(one.rule.effect, Wrong)
        parameters = one.rule.effect.parameters(profile, one.rule.erratum)
        value = one.rule.effect.function(value, inputs, one.call, parameters)
    if any(first is t for t in _tensors((args, kwargs))):  # an in-place or out form
        ext.write_compute(first, value)
        return results
    replaced = ext.from_compute(value, first.dtype)
    return (replaced, *results[1:]) if isinstance(results, tuple | list) else replaced


def _tensors(values: Any) -> list[torch.Tensor]:
    return [v for v in tree_leaves(values) if isinstance(v, torch.Tensor)]


def _with_storage(t: torch.Tensor) -> torch.Tensor:
    """A copy of the values of `t` inside a copy of its whole storage, which a defect may read elsewhere."""
    from sim_backend.device import ext

    extent = t.untyped_storage().nbytes() // t.itemsize
    values = ext.to_compute(torch.as_strided(t, (extent,), (1,), 0)).clone()
    return torch.as_strided(values, t.shape, t.stride(), t.storage_offset())
