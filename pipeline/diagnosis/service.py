"""From capability reports and device probes to diagnoses: one per cause, with the patterns that could apply."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from agents.types import Diagnosis, Failure, FailureKind, PatternUse
from pipeline.diagnosis.answers import answer_to
from pipeline.diagnosis.patterns import Facts, patterns_for

if TYPE_CHECKING:
    from pipeline.diagnosis.wrong_values.findings import Finding


def failures_of(reports: Iterable[dict[str, Any]]) -> list[Failure]:
    """The failures of several capability reports (one per dtype run), equal causes merged.

    A cause is (kind, op, source line, module path, what is refused): one operation can be refused for its dtype in one
    run and for its mask in the next. What the first report already named is not repeated; the fp16 report adds what the
    checkpoint's own dtype hides.
    """
    merged: dict[tuple[str, ...], Failure] = {}
    for report in reports:
        for item in report["failures"]:
            failure = failure_from_report(item, report["dtype"])
            merged.setdefault(cause(failure), failure)
    return list(merged.values())


def fallbacks_of(report: dict[str, Any]) -> list[Failure]:
    """The CPU fallbacks of one report as failures: right values, but the graph did not stay on the device."""
    merged: dict[tuple[str, ...], Failure] = {}
    for item in report["fallbacks"]:
        failure = failure_from_report({**item, "kind": FailureKind.CPU_FALLBACK}, report["dtype"])
        merged.setdefault(cause(failure), failure)
    return list(merged.values())


def predictions_of(reports: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Known wrong-value defects the device's documentation predicts, for display; diagnosis never uses them."""
    merged: dict[tuple[Any, ...], dict[str, Any]] = {}
    for report in reports:
        for item in report["predicted"]:
            merged.setdefault((item["predicted"], item["op"], item["source"]), {**item, "dtype_run": report["dtype"]})
    return list(merged.values())


def failure_from_report(item: dict[str, Any], dtype: str) -> Failure:
    """A failure from one entry of a capability report that ran in `dtype`."""
    known = {k: item[k] for k in ("op", "source", "module", "message", "place", "count", "layers", "after")}
    return Failure(
        kind=FailureKind(item["kind"]),
        shapes=tuple(tuple(s) for s in item["shapes"]),
        dtypes=tuple(item["dtypes"]),
        scalars=tuple(item["scalars"]),
        dtype_run=dtype,
        **known,
    )


def cause(failure: Failure) -> tuple[str, ...]:
    """What makes two failures the same cause."""
    return failure.kind, failure.op, failure.source, failure.module, failure.message


def diagnose_failures(failures: Iterable[Failure], facts: Facts) -> list[Diagnosis]:
    """One diagnosis per failure, with the patterns of the table that fit it and the model's structure.

    A fallback that no pattern removes is not asked to be patched: it costs a transfer, its values are right.
    """
    return [diagnose_one(f, patterns_for(f, facts)) for f in failures]


def diagnose_reports(reports: Sequence[dict[str, Any]], facts: Facts) -> list[Diagnosis]:
    """The loud causes of several reports, then the CPU fallbacks.

    The first reports are those of the usual input; one with `only_for` adds what the others do not have, and says so in
    the evidence. A fallback's evidence holds what it costs.
    """
    usual = [r for r in reports if "only_for" not in r]
    rare = [r for r in reports if "only_for" in r]
    found = diagnose_failures(failures_of(usual), facts)
    fallbacks = diagnose_failures(fallbacks_of(usual[-1]), facts)
    known = {place(d.failure) for d in [*found, *fallbacks]}
    for report in rare:
        for failure in [*failures_of([report]), *fallbacks_of(report)]:
            if place(failure) not in known:
                known.add(place(failure))
                new = diagnose_one(failure, patterns_for(failure, facts))
                new.evidence["only_for"] = report["only_for"]
                (fallbacks if failure.kind is FailureKind.CPU_FALLBACK else found).append(new)
    for diagnosis in fallbacks:
        diagnosis.evidence.update(cost(diagnosis.failure))
    return [*found, *fallbacks]


def place(failure: Failure) -> tuple[str, ...]:
    """What makes two failures of different inputs the same: sizes in messages are those of the input."""
    return failure.kind, failure.op, failure.source, failure.module


_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "bool": 1, "int8": 1, "uint8": 1}


def cost(failure: Failure) -> dict[str, Any]:
    """What a fallback costs per call of the model: its calls, and the bytes of its operands that leave the device."""
    sizes = [math.prod(s) * _BYTES.get(d, 2) for s, d in zip(failure.shapes, failure.dtypes, strict=False)]
    return {"calls": failure.count, "operand_bytes": sum(sizes) * failure.count}


def diagnose_findings(findings: Iterable[Finding], facts: Facts) -> list[Diagnosis]:
    """One diagnosis per silent cause, with what was measured."""
    made = []
    for found in findings:
        diagnosis = diagnose_one(found.failure, patterns_for(found.failure, facts))
        diagnosis.evidence.update(found.evidence)
        made.append(diagnosis)
    return made


def diagnose_one(failure: Failure, patterns: tuple[PatternUse, ...]) -> Diagnosis:
    """The diagnosis of one failure; without a pattern, what else there is to do."""
    return Diagnosis(failure, patterns, no_patch=None if patterns else answer_to(failure))
