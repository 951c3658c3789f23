"""What a stage's child hands back, checked once: the OUT document as a frozen value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pipeline.work.models import Outcome

REASON_LIMIT = 4_000
FULL_DEPTH = "full"
"""A child may say so; stored is only what falls short of it ("2 of 36")."""


@dataclass(frozen=True)
class StageResult:
    """The result of one stage. `extra` holds what a stage hands to its successors only (`config`, `family`, ...)."""

    outcome: Outcome
    reason: str = ""
    kind: str | None = None
    failures: list[dict[str, Any]] = field(default_factory=list)
    diagnoses: list[dict[str, Any]] = field(default_factory=list)
    candidates: list[dict[str, Any]] = field(default_factory=list)
    fingerprint: str | None = None
    measurements: dict[str, Any] = field(default_factory=dict)
    evidence: dict[str, Any] = field(default_factory=dict)
    artefacts: list[Any] = field(default_factory=list)
    weights: str | None = None
    depth: str | None = None
    seconds: float | None = None
    peak_rss_mb: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def kinds(self) -> set[str]:
        """The kinds of all failures, the result's own included."""
        found = {str(f.get("kind")) for f in self.failures}
        return found | ({self.kind} if self.kind else set())


_FIELDS = set(StageResult.__dataclass_fields__) - {"outcome", "extra", "reason"}


def result_from_out(data: dict[str, Any]) -> StageResult:
    """Read an OUT document. A document without a legal outcome is our fault: `infra`."""
    known = {key: value for key, value in data.items() if key in _FIELDS and value is not None}
    extra = {key: value for key, value in data.items() if key not in _FIELDS | {"outcome", "reason"}}
    reason = cut(str(data.get("reason") or ""))
    try:
        outcome = Outcome(data.get("outcome", ""))
    except ValueError:
        outcome, reason = Outcome.INFRA, f"the stage gave the outcome {data.get('outcome')!r}"
    if known.get("depth") == FULL_DEPTH:
        del known["depth"]
    kind = known.pop("kind", None) or next((str(f["kind"]) for f in known.get("failures", ()) if f.get("kind")), None)
    return StageResult(outcome, reason, kind if outcome is Outcome.FAILED else None, extra=extra, **known)


def child_failed(kind: str, reason: str, seconds: float, peak_rss_mb: float) -> StageResult:
    """The result of a child that crashed, hung or ran out of memory: it costs this one row."""
    failure = {"kind": kind, "op": "", "source": "", "module": "", "message": cut(reason)}
    return StageResult(Outcome.FAILED, cut(reason), kind, [failure], seconds=seconds, peak_rss_mb=peak_rss_mb)


def cut(text: str, limit: int = REASON_LIMIT) -> str:
    """`text` in at most `limit` characters, with a note where some were cut; NUL, which PostgreSQL refuses, spelt."""
    clean = text.replace("\0", "\\0")
    note = f" … ({len(clean) - limit} cut)"
    return clean if len(clean) <= limit else clean[: limit - len(note)] + note
