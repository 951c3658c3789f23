"""What a tier asks for, by the names the policy uses: each is a sentence and a question to the measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pipeline.verification.measurements import CaseMeasurement, Measurements, Place, Weights
from pipeline.verification.policy import Policy, PolicyRefused
from pipeline.verification.verdict import Tier

Counted = Sequence[CaseMeasurement]


class Asked(NamedTuple):
    """What a requirement looks at: all measurements, the cases that count, the tier's draws and the guards."""

    measured: Measurements
    counted: Counted
    draws: int
    policy: Policy

    @property
    def on_device(self) -> list[CaseMeasurement]:
        """The counted cases that ran on the device."""
        return [c for c in self.counted if c.place is Place.DEVICE]


class Requirement(NamedTuple):
    """`lacks` is true if the measurement is missing; then the verdict is `unknown` with `text` as the reason.

    `needs_text`: not applicable to a checkpoint without a tokenizer, which is run on token ids.
    """

    text: str
    lacks: Callable[[Asked], bool]
    needs_text: bool = False


def _lacks_ranking(a: Asked) -> bool:
    m = a.measured
    return m.weights is Weights.REAL and (m.spearman is None or m.spearman_pairs < a.policy.guards["ranked_pairs"])


def _scripts(a: Asked) -> set[str]:
    return {script for c in a.on_device for script in c.scripts}


REQUIREMENTS: dict[str, Requirement] = {
    "counted_case": Requirement("no case counted", lambda a: not a.counted),
    "device_case": Requirement("no counted case ran on the device", lambda a: not a.on_device),
    "execution_proof": Requirement(
        "no execution proof", lambda a: a.measured.execution is None or a.measured.execution.blocks_on_device < 1
    ),
    "error_ratio": Requirement(
        "a device case has no error ratio",
        lambda a: any(c.error_ratio is None and not c.problem for c in a.on_device),
    ),
    "mathematics": Requirement(
        "a patch was not compared with what it replaces",
        lambda a: len(a.measured.equivalence) < a.measured.patches,
    ),
    "draws": Requirement("too few independent draws", lambda a: len({c.draw for c in a.on_device}) < a.draws),
    "cpu_case": Requirement(
        "the patched model was not compared on the CPU", lambda a: not any(c.place is Place.CPU for c in a.counted)
    ),
    "company": Requirement(
        "texts alone were not compared with texts in a batch",
        lambda a: not any(c.company_token_cosine is not None for c in a.on_device),
    ),
    "centred": Requirement(
        "no mean-centred comparison (fewer than 3 texts)",
        lambda a: not any(c.centred_pooled_cosine is not None for c in a.on_device),
    ),
    "left_padding": Requirement(
        "padding on the left was not tried",
        lambda a: a.measured.needs_left_padding and not any(c.side == "left" for c in a.on_device),
    ),
    "empty_text": Requirement(
        "the empty text was not run", lambda a: not any(c.empty_texts for c in a.on_device), needs_text=True
    ),
    "scripts": Requirement(
        "texts in too few scripts", lambda a: len(_scripts(a)) < a.policy.guards["scripts"], needs_text=True
    ),
    "ranking": Requirement("no ranking of probe pairs", _lacks_ranking, needs_text=True),
    "full_depth": Requirement("the model was not run at full depth", lambda a: a.measured.depth != "full"),
}


def required(tier: Tier, policy: Policy) -> Iterator[tuple[str, Requirement]]:
    """The requirements of a tier by name. Raises PolicyRefused for a tier or a name that nobody knows."""
    rule = policy.tiers.get(tier.value)
    if rule is None:
        raise PolicyRefused(f"policy {policy.version!r} has no tier {tier.value!r}")
    for name in rule.requires:
        if name not in REQUIREMENTS:
            raise PolicyRefused(f"policy {policy.version!r} requires {name!r}, which nothing measures")
        yield name, REQUIREMENTS[name]


def missing(m: Measurements, counted: Counted, tier: Tier, policy: Policy) -> Iterator[str]:
    """The sentence of every required measurement that is not there."""
    asked = Asked(m, counted, policy.tiers[tier.value].draws if tier.value in policy.tiers else 0, policy)
    for name, requirement in required(tier, policy):
        if not _excused(name, requirement, m) and requirement.lacks(asked):
            yield requirement.text


def _excused(name: str, requirement: Requirement, m: Measurements) -> bool:
    """Only oracles that need text can be not applicable, and only with a reason."""
    return requirement.needs_text and bool(m.without_text.get(name))


def not_applicable_texts(m: Measurements, tier: Tier, policy: Policy) -> Iterator[str]:
    """Required oracles that do not apply, with the reason."""
    for name, requirement in required(tier, policy):
        if _excused(name, requirement, m):
            yield f"{name}: {m.without_text[name]}"
        elif name == "ranking" and m.weights is Weights.SYNTHETIC:
            yield "ranking: synthetic weights rank nothing"
