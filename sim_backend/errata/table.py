"""All rules of all subjects, by the operation they look at."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from sim_backend.errata import (
    attention,
    gathers,
    layouts,
    norms,
    november,
    numerics,
    offsets,
    operands,
    padding,
    power,
    process,
    products,
    reductions,
    rotary,
    softmax,
    spans,
    swapped,
    views,
)
from sim_backend.errata.rule import Call, Evaluation, Rule, Triggered, Verdict, WrongFunction
from sim_backend.profiles import Profile, split_op

RULES: tuple[Rule, ...] = (
    *numerics.RULES,
    *operands.RULES,
    *power.RULES,
    *products.RULES,
    *padding.RULES,
    *offsets.RULES,
    *gathers.RULES,
    *swapped.RULES,
    *process.RULES,
    *reductions.RULES,
    *spans.RULES,
    *november.RULES,
    *views.RULES,
    *attention.RULES,
    *layouts.RULES,
    *norms.RULES,
    *rotary.RULES,
    *softmax.RULES,
)


@cache
def rules_for(profile: Profile, packet: str, falls_back: bool = False) -> tuple[Rule, ...]:
    """The rules that look at calls of `packet` ("aten.ne") and whose erratum is switched on."""
    on = (r for r in RULES if packet in r.ops and profile.has(r.erratum))
    return tuple(r for r in on if r.before_fallback or not falls_back)


def has_rules(profile: Profile, op: str, falls_back: bool = False) -> bool:
    """True if any rule looks at calls of the overload `op`."""
    return bool(rules_for(profile, split_op(op)[0], falls_back))


def judge(profile: Profile, call: Call, falls_back: bool = False) -> Verdict:
    """Ask every rule about `call`."""
    verdict = Verdict()
    for rule in rules_for(profile, split_op(call.op)[0], falls_back):
        detail = rule.applies(profile, call)
        verdict.evaluations.append(Evaluation(rule.erratum, detail is not None, call.op, detail or ""))
        if detail is not None:
            verdict.triggered.append(Triggered(rule, call, detail))
    return verdict


def name_of(function: WrongFunction) -> str:
    """ "numerics:never_unequal", by which generated modules name the function of a `Wrong` effect."""
    return f"{function.__module__.rpartition('.')[2]}:{function.__name__}"


@cache
def function_named(name: str) -> WrongFunction:
    """The function that `name_of` named."""
    module, _, attribute = name.partition(":")
    found: Any = getattr(import_module(f"sim_backend.errata.{module}"), attribute)
    function: WrongFunction = found
    return function
