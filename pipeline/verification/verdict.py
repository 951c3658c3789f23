"""What the gate answers: outcomes, reasons, one verdict per case, and the document that a replay must give again.

Leaf module. A reason has two texts: `text` for people, with the measured figure, and `rule`, which names only what was
asked and the policy's limit, so that documents of two runs can be compared to the letter.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any, NamedTuple


class Tier(StrEnum):
    """How much was measured: `sweep` for breadth, `full` before a review. Stored text."""

    SWEEP = "sweep"
    FULL = "full"


class Outcome(StrEnum):
    """The verdict. Stored text. (`infra` is a run's outcome, never the gate's; `void` is a case's, never the set's.)"""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    VOID = "void"


class Finding(NamedTuple):
    """One reason: the case (or the set), the measurement, the outcome it forces, a sentence, and the rule behind it."""

    case: str
    measure: str
    outcome: Outcome
    text: str
    rule: str

    def document(self) -> dict[str, str]:
        """The part that a replay must give again."""
        return {"measure": self.measure, "outcome": str(self.outcome), "rule": self.rule}


@dataclass(frozen=True)
class CaseVerdict:
    """What one case says: passed, failed, unknown, or void (it does not count), with every reason."""

    case: str
    outcome: Outcome
    reasons: tuple[Finding, ...] = ()

    def document(self) -> dict[str, Any]:
        """The part that a replay must give again."""
        return {"case": self.case, "outcome": str(self.outcome), "reasons": [f.document() for f in self.reasons]}


SET = "set"
"""The name that findings about all cases together carry."""


@dataclass(frozen=True)
class Verdict:
    """The gate's answer. `cases` counts cases that counted; `void_cases` names those that did not, with the reason."""

    outcome: Outcome
    per_case: tuple[CaseVerdict, ...]
    of_the_set: tuple[Finding, ...]
    tier: Tier
    policy: str
    policy_digest: str
    judged_on: date
    exceptions: tuple[str, ...] = ()
    not_applicable: tuple[str, ...] = ()

    @property
    def reasons(self) -> tuple[Finding, ...]:
        """Every reason that decided, what failed first; a void case decides nothing."""
        decided = [f for c in self.per_case if c.outcome is not Outcome.VOID for f in c.reasons]
        return tuple(sorted([*decided, *self.of_the_set], key=lambda f: f.outcome is not Outcome.FAILED))

    @property
    def void_cases(self) -> tuple[tuple[str, str], ...]:
        """Cases that do not count, with the reason."""
        return tuple((c.case, c.reasons[0].text) for c in self.per_case if c.outcome is Outcome.VOID)

    @property
    def cases(self) -> int:
        """How many cases counted."""
        return sum(c.outcome is not Outcome.VOID for c in self.per_case)

    @property
    def sentence(self) -> str:
        """The verdict in one sentence for people."""
        head = f"{self.outcome} on {self.cases} cases ({len(self.void_cases)} not counted, tier {self.tier})"
        return head if not self.reasons else f"{head}: {self.reasons[0].text}"

    def document(self) -> dict[str, Any]:
        """Outcome and reasons per case and of the set, without a measured figure: what a replay must give again."""
        return {
            "outcome": str(self.outcome),
            "tier": str(self.tier),
            "policy": self.policy_digest,
            "cases": [c.document() for c in self.per_case],
            "set": [f.document() for f in self.of_the_set],
            "exceptions": list(self.exceptions),
            "not_applicable": list(self.not_applicable),
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, for people and for pages."""
        return {
            "outcome": str(self.outcome),
            "sentence": self.sentence,
            "tier": str(self.tier),
            "policy": self.policy,
            "judged_on": self.judged_on.isoformat(),
            "cases": self.cases,
            "per_case": [
                {"case": c.case, "outcome": str(c.outcome), "reasons": [f.text for f in c.reasons]}
                for c in self.per_case
            ],
            "reasons": [f._asdict() for f in self.reasons],
            "void_cases": [list(v) for v in self.void_cases],
            "exceptions": list(self.exceptions),
            "not_applicable": list(self.not_applicable),
            "document": self.document(),
        }
