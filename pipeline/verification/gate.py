"""The gate: the only module with thresholds. Turns measurements into a verdict that says what it rests on.

A case counts only if the model reacts to being broken: every applicable control on it was caught and, with synthetic
weights, an ideal DL16 device stays close to fp32. Cases that do not count are void. Without a counting case, or with a
required measurement missing, the verdict is `unknown`; it is never `passed` by absence. NaN satisfies no limit.
Exceptions move one threshold for one subject and need evidence, an owner and an expiry date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from pipeline.verification.measurements import (
    CaseMeasurement,
    ControlResult,
    ElementwiseResult,
    Measurements,
    Place,
    Weights,
)

GATE_VERSION = "gate-2"

THRESHOLDS = MappingProxyType(
    {
        "device_token_cosine": 0.99,  # lowest token cosine over pooled tokens, device against fp32 CPU
        "cpu_token_cosine": 0.999,  # the same, patched model on the CPU
        "company_token_cosine": 0.99,  # alone against batched, on the device
        "norm_tolerance": 0.02,  # norm ratio of each text's tokens within 1 +- this
        "pooled_cosine": 0.999,
        "centred_pooled_cosine": 0.99,
        "spearman": 0.995,  # ranking of probe pairs, real weights only
        "error_ratio_pass": 1.5,  # error over the ideal DL16 run's error
        "error_ratio_unknown": 3.0,  # above this it fails, between the two it is unknown
        "control_cosine": 0.99,  # a control must fall below, else the case is void
        "ideal_token_cosine": 0.999,  # synthetic weights: below this no correct device could pass, the case is void
        "exact_ulp": 4.0,  # fp64 oracle, claim `exact`
        "exact_relative": 1e-12,  # or this
        "special_tolerance": 1e-6,  # finite extreme inputs, of the larger of input and output; any claim
    }
)
MIN_DRAWS = MappingProxyType({"sweep": 1, "full": 2})
MIN_TEXTS_RANKED = 10  # pairs that a Spearman figure must rest on


class Tier(StrEnum):
    """How much was measured: `sweep` for breadth, `full` before a review. Stored text."""

    SWEEP = "sweep"
    FULL = "full"


class Outcome(StrEnum):
    """The verdict. Stored text. (`infra` is a run's outcome, never the gate's.)"""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class GateException:
    """One threshold moved, until `expires`. Raises ValueError without evidence or owner or for an unknown name."""

    threshold: str
    value: float
    evidence: str
    owner: str
    expires: date
    reason: str

    def __post_init__(self) -> None:
        if self.threshold not in THRESHOLDS:
            raise ValueError(f"no threshold {self.threshold!r}, there are: {', '.join(THRESHOLDS)}")
        if not (self.evidence and self.owner and self.reason):
            raise ValueError(f"an exception from {self.threshold!r} needs evidence, an owner and a reason")


class Finding(NamedTuple):
    """One reason: the case (or the set), the measurement, the outcome it forces and a sentence."""

    case: str
    measure: str
    outcome: Outcome
    text: str


@dataclass(frozen=True)
class Verdict:
    """The gate's answer. `cases` counts cases that counted, `void_cases` names those that did not, with the reason."""

    outcome: Outcome
    reasons: tuple[Finding, ...]
    void_cases: tuple[tuple[str, str], ...]
    cases: int
    tier: Tier
    gate_version: str = GATE_VERSION
    exceptions: tuple[str, ...] = ()
    not_applicable: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The verdict in one sentence for people."""
        head = f"{self.outcome} on {self.cases} cases ({len(self.void_cases)} not counted, tier {self.tier})"
        return head if not self.reasons else f"{head}: {self.reasons[0].text}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "reasons": [f._asdict() for f in self.reasons], "sentence": self.sentence}


Limits = dict[str, float]


def control_caught(name: str, token_cosine: float | None, centred_cosine: float | None) -> bool:
    """True if the gate would refuse this control: its lowest token cosine is below the limit.

    Wrong pooling leaves tokens alone: it is judged by the mean-centred pooled cosine. NaN is refused, so it is caught.
    """
    measured = token_cosine if token_cosine is not None else centred_cosine
    return measured is not None and not measured >= THRESHOLDS["control_cosine"]


def void_reason(case: CaseMeasurement, weights: Weights, limits: Limits | None = None) -> str | None:
    """Why the case does not count, or None if it does."""
    limits = limits or dict(THRESHOLDS)
    applicable = [c for c in case.controls if c.applicable]
    missed = [c.name for c in applicable if not c.caught]
    if not applicable:
        return "no control was run"
    if missed:
        return f"controls not caught: {', '.join(missed)}"
    if weights is Weights.SYNTHETIC and case.ideal_token_cosine is None:
        return "synthetic weights without the ideal DL16 run"
    if weights is Weights.SYNTHETIC and not (case.ideal_token_cosine or 0.0) >= limits["ideal_token_cosine"]:
        return f"an ideal DL16 device would reach only {case.ideal_token_cosine:.4f}"
    return None


def exact_point(ulp: float, relative: float) -> bool:
    """True if one point of an exact claim is within 4 ulp or 1e-12 relative."""
    return ulp <= THRESHOLDS["exact_ulp"] or relative <= THRESHOLDS["exact_relative"]


def judge(
    measurements: Measurements,
    tier: Tier | str,
    exceptions: Sequence[GateException] = (),
    today: date | None = None,
) -> Verdict:
    """The verdict over all measurements. `today` decides which exceptions still hold; expired ones are ignored."""
    tier = Tier(tier)
    limits, used = _limits(exceptions, today or date.today())
    voids = [(c.name, reason) for c in measurements.cases if (reason := void_reason(c, measurements.weights, limits))]
    counted = [c for c in measurements.cases if not void_reason(c, measurements.weights, limits)]
    findings = [f for c in counted for f in _case_findings(c, limits)]
    findings += _set_findings(measurements, tier, limits)
    findings += _missing(measurements, counted, tier)
    return Verdict(
        outcome=_worst(findings),
        reasons=tuple(sorted(findings, key=lambda f: f.outcome != Outcome.FAILED)),
        void_cases=tuple(voids),
        cases=len(counted),
        tier=tier,
        exceptions=tuple(used),
        not_applicable=_not_applicable(measurements.cases),
    )


def _limits(exceptions: Sequence[GateException], today: date) -> tuple[Limits, list[str]]:
    limits, used = dict(THRESHOLDS), []
    for exception in exceptions:
        if exception.expires >= today:
            limits[exception.threshold] = exception.value
            used.append(f"{exception.threshold} {exception.value:g} until {exception.expires} ({exception.owner})")
    return limits, used


def _worst(findings: list[Finding]) -> Outcome:
    outcomes = {f.outcome for f in findings}
    if Outcome.FAILED in outcomes:
        return Outcome.FAILED
    return Outcome.UNKNOWN if Outcome.UNKNOWN in outcomes else Outcome.PASSED


def _not_applicable(cases: Sequence[CaseMeasurement]) -> tuple[str, ...]:
    found = {f"{c.name}: {c.detail}" for case in cases for c in case.controls if not c.applicable}
    return tuple(sorted(found))


def _at_least(case: str, measure: str, value: float | None, limit: float) -> Iterator[Finding]:
    if value is not None and not value >= limit:
        yield Finding(case, measure, Outcome.FAILED, f"{_LABELS[measure]} {value:.4f} is below {limit:g} in {case}")


_LABELS = {
    "lowest_token_cosine": "lowest token cosine",
    "pooled_cosine": "pooled cosine",
    "centred_pooled_cosine": "mean-centred pooled cosine",
    "company_token_cosine": "lowest token cosine between alone and batched",
    "spearman": "rank correlation of probe pairs",
}


def _case_findings(case: CaseMeasurement, limits: Limits) -> Iterator[Finding]:
    token_limit = limits["device_token_cosine" if case.place is Place.DEVICE else "cpu_token_cosine"]
    if not case.finite:
        yield Finding(case.name, "finite", Outcome.FAILED, f"values that are not finite in {case.name}")
    yield from _at_least(case.name, "lowest_token_cosine", case.lowest_token_cosine, token_limit)
    yield from _at_least(case.name, "pooled_cosine", case.pooled_cosine, limits["pooled_cosine"])
    yield from _at_least(
        case.name, "centred_pooled_cosine", case.centred_pooled_cosine, limits["centred_pooled_cosine"]
    )
    yield from _at_least(case.name, "company_token_cosine", case.company_token_cosine, limits["company_token_cosine"])
    yield from _norm_findings(case, limits["norm_tolerance"])
    yield from _error_findings(case, limits)


def _norm_findings(case: CaseMeasurement, tolerance: float) -> Iterator[Finding]:
    if not (case.norm_low >= 1 - tolerance and case.norm_high <= 1 + tolerance):
        text = f"norms of texts are {case.norm_low:.4f} to {case.norm_high:.4f} of the reference's in {case.name}"
        yield Finding(case.name, "norm_ratio", Outcome.FAILED, text)


def _error_findings(case: CaseMeasurement, limits: Limits) -> Iterator[Finding]:
    ratio = case.error_ratio
    if ratio is None or ratio <= limits["error_ratio_pass"]:
        return
    outcome = Outcome.UNKNOWN if ratio <= limits["error_ratio_unknown"] else Outcome.FAILED
    text = f"error is {ratio:.2f} times that of an ideal DL16 device in {case.name}"
    yield Finding(case.name, "error_ratio", outcome, text)


def _set_findings(m: Measurements, tier: Tier, limits: Limits) -> Iterator[Finding]:
    if m.execution is not None and m.execution.undeclared:
        ops = ", ".join(f"{op} x{n}" for op, n in sorted(m.execution.undeclared.items()))
        yield Finding("set", "execution", Outcome.FAILED, f"fell back to the CPU outside declared host parts: {ops}")
    if m.weights is Weights.REAL:
        yield from _at_least("set", "spearman", m.spearman, limits["spearman"])
    for result in m.elementwise:
        yield from _elementwise_findings(result)


def _elementwise_findings(r: ElementwiseResult) -> Iterator[Finding]:
    checks = {
        "no point was compared": r.points == 0,
        "an output depends on another input": not r.elementwise,
        "differs at NaN, infinities or extremes": not r.specials_equal,
    }
    if r.bound is None:
        checks[f"claims exact but differs by {r.max_relative:.2g} (at {r.worst_input:g})"] = r.exact_misses > 0
    else:
        checks[f"error {r.max_error:.2g} exceeds its stated bound {r.bound:.2g}"] = not r.max_error <= r.bound
    for text, refused in checks.items():
        if refused:
            yield Finding(r.name, "elementwise", Outcome.FAILED, f"patch {r.name} {text}")


Needs = Callable[[Measurements, list[CaseMeasurement], Tier], bool]


def _on_device(counted: list[CaseMeasurement]) -> list[CaseMeasurement]:
    return [c for c in counted if c.place is Place.DEVICE]


_ALWAYS = {
    "no case counted": lambda m, counted, tier: not counted,
    "no counted case ran on the device": lambda m, counted, tier: not _on_device(counted),
    "no execution proof": lambda m, counted, tier: m.execution is None or m.execution.blocks_on_device < 1,
    "a device case has no error ratio": lambda m, counted, tier: (
        any(c.error_ratio is None for c in _on_device(counted))
    ),
    "a drafted document has no fp64 oracle": lambda m, counted, tier: len(m.elementwise) < m.documents,
    "too few independent draws": lambda m, counted, tier: (
        len({c.draw for c in _on_device(counted)}) < MIN_DRAWS[tier.value]
    ),
}  # fmt: skip
_FULL = {
    "the patched model was not compared on the CPU": lambda m, counted, tier: (
        not any(c.place is Place.CPU for c in counted)
    ),
    "texts alone were not compared with texts in a batch": lambda m, counted, tier: (
        not any(c.company_token_cosine is not None for c in _on_device(counted))
    ),
    "no mean-centred comparison (fewer than 3 texts)": lambda m, counted, tier: (
        not any(c.centred_pooled_cosine is not None for c in _on_device(counted))
    ),
    "padding on the left was not tried": lambda m, counted, tier: (
        m.needs_left_padding and not any(c.side == "left" for c in _on_device(counted))
    ),
    "no ranking of probe pairs": lambda m, counted, tier: (
        m.weights is Weights.REAL and (m.spearman is None or m.spearman_pairs < MIN_TEXTS_RANKED)
    ),
    "the model was not run at full depth": lambda m, counted, tier: m.depth != "full",
}  # fmt: skip
REQUIRED: dict[Tier, dict[str, Needs]] = {Tier.SWEEP: _ALWAYS, Tier.FULL: {**_ALWAYS, **_FULL}}


def _missing(m: Measurements, counted: list[CaseMeasurement], tier: Tier) -> Iterator[Finding]:
    for text, lacks in REQUIRED[tier].items():
        if lacks(m, counted, tier):
            yield Finding("set", "evidence", Outcome.UNKNOWN, text)


def as_control(name: str, token_cosine: float | None, centred_cosine: float | None, detail: str = "") -> ControlResult:
    """A control that was run, with the gate's answer to it."""
    caught = control_caught(name, token_cosine, centred_cosine)
    return ControlResult(name, True, token_cosine, centred_cosine, caught, detail)
