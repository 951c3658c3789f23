"""Faults of the diagnosis benchmark: errata and limits one at a time on the ideal profile, and random ones.

A random fault is a rule of the simulator's own mechanism, made here and put into the process that runs the model. The
diagnosis never sees which faults are in.
"""

from __future__ import annotations

import hashlib
import random
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

PROFILE = "profile-ideal"
CARRIER = "E-60"
"""An erratum no rule is written for: its parameters carry the random faults, so that compile caches tell them apart."""
STICK = 64
AS_IN = ("profile-2025-11", "profile-2026-04", "profile-2026-09", "profile-2026-08")
"""Profiles that an erratum's parameters are taken from, the last one that has it."""

CONDITIONS: dict[str, frozenset[str]] = {
    "E-02": frozenset({"drift"}),
    "E-03": frozenset({"layout", "fused"}),
    "E-04": frozenset({"layout", "fused"}),
    "E-06": frozenset({"value", "size"}),
    "E-07": frozenset({"fused"}),
    "E-08": frozenset({"value"}),
    "E-12": frozenset({"value"}),
    "E-14": frozenset({"special"}),
    "E-15": frozenset({"fused", "offset"}),
    "E-17": frozenset({"layout"}),
    "E-18": frozenset({"border"}),
    "E-19": frozenset({"value", "fused"}),
    "E-22": frozenset({"length"}),
    "E-26": frozenset({"size"}),
    "E-27": frozenset({"value"}),
    "E-28": frozenset({"value", "layout"}),
    "E-29": frozenset({"fused"}),
    "E-31": frozenset({"offset"}),
    "E-35": frozenset({"offset"}),
    "E-36": frozenset({"layout", "offset", "fused"}),
    "E-37": frozenset({"layout"}),
    "E-40": frozenset({"length", "value"}),
    "E-41": frozenset({"value"}),
    "E-42": frozenset({"size", "value", "length"}),
    "E-43": frozenset({"length"}),
    "E-47": frozenset({"value"}),
}
"""What an erratum that gives wrong values must be said to depend on: the trigger of the facts page in our words."""
LOUD = ("E-10", "E-11", "E-13", "E-16", "E-23", "E-25", "E-30", "E-49", "E-51", "E-52", "E-61", "E-65", "E-68", "E-70",
        "E-71", "E-72", "E-73")  # fmt: skip
AS_WRITTEN: dict[str, dict[str, Any]] = {"E-43": {"mode": "strict"}}
"""Parameters of an erratum whose mild form does nothing here."""
ALSO: dict[str, dict[str, Any]] = {
    "E-02": {"numerics": {"reduction_accumulation": "serial"}},
    "E-08": {"pow_exponents": {"3": "erratum"}},
    "E-14": {"numerics": {"layer_norm": "exx2"}},
    "E-16": {"limits": {"legal_sticks": True}},
    "E-10": {"pow_exponents": {"-0.5": "unimplemented"}},
}
"""What the ideal profile must leave as it is on a device for the erratum to show."""
LIMITS: dict[str, dict[str, Any]] = {"limit-sticks": {"limits": {"legal_sticks": True}}}


@dataclass(frozen=True)
class Random:
    """op × condition × size × only-when-fused: `partner` is the packet that must be in the same graph, "" for none."""

    op: str
    condition: str
    effect: str
    size: float
    partner: str = ""

    @property
    def key(self) -> str:
        """Its name among the carrier's parameters: the profile of a process says which of the rules in it are on."""
        return "fault_" + hashlib.sha256(repr(self).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Fault:
    """A named fault: what it changes of the profile, the rule it adds, and the conditions that name it rightly."""

    name: str
    overrides: dict[str, Any] = field(default_factory=dict)
    conditions: frozenset[str] = frozenset()
    random: Random | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the child."""
        return {**asdict(self), "conditions": sorted(self.conditions)}


def fault_from(data: Mapping[str, Any]) -> Fault:
    """The fault written by `to_dict`."""
    drawn = Random(**data["random"]) if data["random"] else None
    return Fault(data["name"], data["overrides"], frozenset(data["conditions"]), drawn)


def known_faults() -> Iterator[Fault]:
    """Every erratum of the tables above that some profile has, and the limits."""
    from sim_backend.profiles import load_profile

    found: dict[str, Any] = {}
    for name in AS_IN:
        found |= {k: v for k, v in load_profile(name).to_dict()["errata"].items() if v is not None}
    for erratum in (*CONDITIONS, *LOUD):
        if found.get(erratum) is not None:
            plain = {"errata": {erratum: AS_WRITTEN.get(erratum, found[erratum])}}
            yield Fault(erratum, {**plain, **ALSO.get(erratum, {})}, CONDITIONS.get(erratum, frozenset()))
    yield from (Fault(name, overrides) for name, overrides in LIMITS.items())


OPERATIONS = {
    "aten.addmm": ("always", "size", "fused", "length"),
    "aten._scaled_dot_product_fused_attention_overrideable": ("always", "layout", "length", "batch", "fused"),
    "aten.native_layer_norm": ("always", "length", "fused"),
    "aten.gelu": ("always", "size", "length", "fused"),
    "aten.add": ("always", "length", "fused"),
}
"""Operations random faults sit in, as the compiler names them, and the conditions that mean something for each."""
PARTNERS = ("aten.gelu", "aten.native_layer_norm", "aten.addmm")
EFFECTS = ("scale", "drop", "shift", "nan")
SIZES = (0.05, 0.2, 0.5, 1.0)


def random_faults(seed: int) -> Iterator[Fault]:
    """Seeded random faults without end; no two are equal."""
    generator = random.Random(seed)  # noqa: S311 - a test's draw
    seen: set[Random] = set()
    while True:
        op = generator.choice(sorted(OPERATIONS))
        condition = generator.choice(OPERATIONS[op])
        partner = generator.choice([p for p in PARTNERS if p != op]) if condition == "fused" else ""
        drawn = Random(op, condition, generator.choice(EFFECTS), generator.choice(SIZES), partner)
        if drawn not in seen:
            seen.add(drawn)
            named = frozenset({"value" if condition == "always" else condition})
            carried = {"errata": {CARRIER: {drawn.key: asdict(drawn)}}}
            yield Fault(f"random-{seed}-{len(seen):02}", carried, named, drawn)


DRIFT_SIZE = 0.03
"""Of a row's root mean square: too little for an operation or a block to be wrong, too much after two of them."""


def drift_faults() -> Iterator[Fault]:
    """Small errors in every product: with a bias (BERT), without (ModernBERT, Qwen3)."""
    for op in ("aten.addmm", "aten.mm", "aten.mm"):
        drawn = Random(op, "always", "lean", DRIFT_SIZE)
        yield Fault("drift", {"errata": {CARRIER: {drawn.key: asdict(drawn)}}}, frozenset({"drift"}), drawn)


# --- in the process that runs the model
def install(faults: Sequence[Fault]) -> None:
    """Choose the profile of this process with the faults in it, and add the rules of random ones."""
    import sim_backend

    sim_backend.use_profile(PROFILE, merged(faults))
    add_rules(faults)


def merged(faults: Sequence[Fault]) -> dict[str, Any]:
    """The profile overrides of several faults together."""
    whole: dict[str, Any] = {}
    for fault in faults:
        for table, entries in fault.overrides.items():
            held = whole.setdefault(table, {})
            carried = {**held.get(CARRIER, {}), **entries.get(CARRIER, {})}
            held.update({**entries, CARRIER: carried} if carried else entries)
    return whole


def profile_of(faults: Sequence[Fault]) -> Any:
    """The profile of several faults together, which this process need not be of."""
    from sim_backend.profiles import load_profile

    return load_profile(PROFILE, merged(faults))


def add_rules(faults: Iterable[Fault]) -> None:
    """The rules of the random ones among the faults; each acts only in a profile that carries its fault."""
    drawn = [f.random for f in faults if f.random is not None]
    if drawn:
        _add_rules(drawn)


def _add_rules(drawn: Sequence[Random]) -> None:
    from sim_backend.errata import table
    from sim_backend.errata.rule import Rule, Wrong

    module = types.ModuleType("sim_backend.errata.injected")
    rules = []
    for fault in drawn:
        function = _spoiling(fault)
        function.__module__, function.__name__ = module.__name__, f"spoil_{fault.key}"
        setattr(module, function.__name__, function)
        rules.append(Rule(CARRIER, frozenset([fault.op]), _trigger(fault), Wrong(function)))
    sys.modules[module.__name__] = module
    table.RULES = (*table.RULES, *rules)
    table.rules_for.cache_clear()


def _trigger(fault: Random) -> Any:
    def applies(profile: Any, call: Any) -> str | None:
        if fault.key not in profile.errata[CARRIER]:
            return None
        return f"{fault.key}: {fault.condition}" if TRIGGERS[fault.condition](call, fault) else None

    return applies


def _activations(call: Any) -> list[Any]:
    return [o for o in call.operands if o.is_half and len(o.shape) > 1]


TRIGGERS: dict[str, Any] = {
    "always": lambda call, _: bool(_activations(call)),
    "layout": lambda call, _: any(not o.is_contiguous for o in call.operands[:3]),
    "length": lambda call, _: any(n % STICK and n > STICK // 8 for o in _activations(call) for n in o.shape),
    "size": lambda call, _: any(n > 2 * STICK for o in _activations(call) for n in o.shape[-1:]),
    "batch": lambda call, _: bool(call.operands) and len(call.operands[0].shape) > 2 and call.operands[0].shape[0] > 1,
    "fused": lambda call, fault: bool(_activations(call)) and fault.partner in call.beside,
}


def _spoiling(fault: Random) -> Any:
    def spoil(result: torch.Tensor, _inputs: Any, _call: Any, _parameters: Any) -> torch.Tensor:
        wrong = result.clone()
        part = wrong[..., : max(wrong.shape[-1] // 2, 1)]
        if fault.effect == "scale":
            part.mul_(1 + fault.size)
        elif fault.effect == "drop":
            part.zero_()
        elif fault.effect == "shift":
            part.copy_(part.roll(1, -1))
        elif fault.effect == "lean":
            wrong += _signs(wrong) * wrong.pow(2).mean(-1, keepdim=True).sqrt() * fault.size
        else:
            part[..., 0] = torch.nan
        return wrong

    return spoil


def _signs(like: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 2, like.shape, generator=generator) * 2.0 - 1.0
