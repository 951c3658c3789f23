"""The cases of the diagnosis benchmark: which faults in which model, from what triggers there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks.diagnosis_families import FAMILIES
from benchmarks.diagnosis_faults import Fault, drift_faults, known_faults, random_faults
from benchmarks.diagnosis_modules import CONSTRUCTED
from benchmarks.diagnosis_triggers import DRAWN, SEED, UNSEEN

RANDOM = 30
AT_ONCE = {
    "bert-gelu_new": ("E-08", "E-17", "E-22"),
    "qwen2": ("E-15", "E-17", "E-22"),
    "xlm-roberta": ("E-17", "E-61", "E-71"),
}
"""Three faults at once, by family."""
DRIFTING = ("bert", "modernbert", "qwen3")
"""Families that the small errors that accumulate are put into."""


@dataclass(frozen=True)
class Case:
    """One model with faults in it; `sort` is clean, known, made, random, drift or three."""

    sort: str
    family: str
    faults: tuple[Fault, ...]

    @property
    def name(self) -> str:
        """`known/E-17/bert`."""
        return f"{self.sort}/{'+'.join(f.name for f in self.faults) or 'none'}/{self.family}"

    @property
    def is_unseen(self) -> bool:
        """True if only a run tells whether the faults trigger."""
        return any(UNSEEN & f.conditions for f in self.faults)

    def truth(self) -> list[dict[str, str]]:
        """What the case itself says is wrong, of faults that no report shows."""
        made = CONSTRUCTED.get(self.family)
        if made is not None and made.by_value:
            return [{"op": f"{made.by_value}.default", "kind": "wrong_values", "place": "block"}]
        conditions = {c for f in self.faults for c in f.conditions & UNSEEN}
        ops = {"border": "block", "drift": "model"}
        return [{"op": ops[c], "kind": "wrong_values", "place": "block"} for c in sorted(conditions)]


def cases(met: Mapping[str, list[str]]) -> Iterator[Case]:
    """Clean families, every pair that triggers, constructed models, random faults in their drawn order, three at once.

    `met`: model → names of the faults that trigger in it. A fault that only a run shows is tried in every family.
    """
    known = {f.name: f for f in known_faults()}
    yield from (Case("clean", family, ()) for family in FAMILIES)
    for fault in known.values():
        for family in FAMILIES:
            if fault.name in met.get(family, ()) or UNSEEN & fault.conditions:
                yield Case("known", family, (fault,))
    yield from (
        Case("made", m, (known[made.fault],)) for m, made in CONSTRUCTED.items() if made.fault in met.get(m, ())
    )
    yield from triggering(met)
    yield from (Case("drift", family, (f,)) for f, family in zip(drift_faults(), DRIFTING, strict=True))
    for family, names in AT_ONCE.items():
        yield Case("three", family, tuple(known[n] for n in names))


def triggering(met: Mapping[str, list[str]]) -> Iterator[Case]:
    """The first RANDOM drawn faults that trigger in the family that was drawn with them."""
    found = [Case("random", f, (fault,)) for fault, f in drawn() if fault.name in met.get(f, ())]
    yield from found[:RANDOM]


def drawn() -> Iterator[tuple[Fault, str]]:
    """The random faults in their order, each with its family."""
    families = list(FAMILIES)
    for n, fault in zip(range(DRAWN), random_faults(SEED), strict=False):
        yield fault, families[n % len(families)]


def never_triggered(met: Mapping[str, list[str]]) -> list[str]:
    """Names of known faults that trigger nowhere, not even in a constructed model."""
    everywhere = {name for names in met.values() for name in names}
    return [f.name for f in known_faults() if f.name not in everywhere and not UNSEEN & f.conditions]
