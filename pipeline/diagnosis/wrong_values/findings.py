"""What the search found, as failures: kind, operation, condition, and the measurements behind them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agents.types import Failure, FailureKind
from pipeline.diagnosis.region import region_of
from pipeline.diagnosis.wrong_values.boundaries import Boundary
from pipeline.diagnosis.wrong_values.compare import Difference
from pipeline.diagnosis.wrong_values.experiments import Condition, Mended
from pipeline.diagnosis.wrong_values.narrow import narrow_name
from pipeline.diagnosis.wrong_values.programs import Operation, Program

ALWAYS = Condition("value", "wrong for contiguous operands at a length of whole sticks")


@dataclass(frozen=True)
class Finding:
    """A silent cause: the failure, the smallest program that shows it (None for a border or drift), measurements."""

    failure: Failure
    program: Program | None = None
    evidence: dict[str, Any] = field(default_factory=dict)

    @property
    def cause(self) -> tuple[Any, ...]:
        """Equal for the same defect of the same line of code, whatever the layer and the variant of input."""
        f = self.failure
        return f.kind, f.op, f.source, f.module, f.scalars[:1]


def operation_findings(
    operation: Operation, program: Program, found: Difference, mended: Mended, variant: str
) -> list[Finding]:
    """A wrong operation: one finding per condition; the condition is the failure's first scalar."""
    return [
        Finding(
            _failure(operation, program, found, condition, f"{condition.detail}: {found.text()}"),
            program,
            {**_evidence(found, mended.by_one, variant), "region": region_of(program, operation)},
        )
        for condition in mended.causes or (ALWAYS,)
    ]


def reading_through(finding: Finding, views: Sequence[str]) -> Finding:
    """The finding with the views that give an operand its layout or offset, where that is the condition."""
    if not views or finding.failure.scalars[0] not in ("layout", "offset"):
        return finding
    message = f"{finding.failure.message}; it reads through {', '.join(views)}"
    return replace(finding, failure=replace(finding.failure, message=message))


def fused_finding(
    operation: Operation, partner: Operation, program: Program, found: Difference, variant: str
) -> Finding:
    """An operation that is wrong only in one graph with `partner`; run apart, both are right."""
    condition = Condition("fused", f"right alone, wrong in one graph with {partner.op} ({partner.source})")
    made = _failure(operation, program, found, condition, f"{condition.detail}: {found.text()}")
    partners = {"fused_with": partner.op, "fused_with_source": partner.source}
    evidence = {**_evidence(found, (), variant), **partners, "region": region_of(program, operation)}
    return Finding(replace(made, scalars=("fused", partner.op)), program, evidence)


def _failure(operation: Operation, program: Program, found: Difference, condition: Condition, text: str) -> Failure:
    return Failure(
        kind=FailureKind.WRONG_VALUES if found.finite else FailureKind.NON_FINITE,
        op=operation.op,
        source=operation.source,
        module=operation.module,
        message=text,
        shapes=tuple(tuple(i.value.shape) for i in program.inputs),
        dtypes=tuple(str(i.dtype).removeprefix("torch.") for i in program.inputs),
        scalars=(condition.name, *operation.scalars()),
        dtype_run=narrow_name(),
    )


def _evidence(found: Difference, mended: Sequence[Condition], variant: str) -> dict[str, Any]:
    return {
        "error": found.error if found.finite else None,
        "explained": found.explained,
        "variant": variant,
        "mended_by": [c._asdict() for c in mended],
    }


def border_finding(boundary: Boundary, giver: Program | None, variant: str) -> Finding:
    """A block that reads the previous one's output wrongly when it is handed over; `giver` is that one's end."""
    assert boundary.handed is not None
    text = f"reads another block's output wrongly, right when it is copied: {boundary.handed.text()}"
    evidence = {**_evidence(boundary.handed, (), variant), "given_by": giver.operations[-1].op if giver else None}
    return Finding(block_failure(boundary, "border", text), giver, evidence)


def unexplained_finding(
    boundary: Boundary,
    variant: str,
    why: str = "as compiled from the module, right as traced operations",
    cause: str = "block",
) -> Finding:
    """A block that is wrong although no operation or graph of operations in it was found wrong: reported as such."""
    text = f"wrong {why}: {boundary.own.text()}"
    return Finding(block_failure(boundary, cause, text), None, _evidence(boundary.own, (), variant))


def drift_finding(curve: Sequence[Boundary], variant: str) -> Finding:
    """Errors that no single block makes, but that grow to more than an ideal 16-bit run's by the end."""
    last = curve[-1]
    text = (
        f"each block is as exact as 16 bits allow, end to end the relative error grows to {last.total:.2g} "
        f"where an ideal 16-bit run has {last.ideal:.2g}"
    )
    error = last.total if last.total == last.total else None
    evidence = {"error": error, "explained": last.ideal, "variant": variant, "curve": [b.point() for b in curve]}
    return Finding(replace(block_failure(last, "drift", text), op="model"), None, evidence)


def block_failure(boundary: Boundary, cause: str, text: str) -> Failure:
    """A failure of a whole block."""
    return Failure(
        kind=FailureKind.WRONG_VALUES if boundary.own.finite else FailureKind.NON_FINITE,
        op="block",
        source=_forward_line(boundary.call.block),
        module=re.sub(r"(^|\.)\d+(?=\.|$)", r"\1*", boundary.call.path),
        message=text,
        shapes=(tuple(boundary.call.output.shape),),
        dtypes=(narrow_name(),),
        scalars=(cause,),
        dtype_run=narrow_name(),
    )


def _forward_line(block: Any) -> str:
    code = inspect.unwrap(type(block).forward).__code__
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}"


def in_layers(finding: Finding, layers: int) -> Finding:
    """A finding that was met in so many blocks of its kind."""
    failure = finding.failure
    return replace(finding, failure=replace(failure, layers=layers, count=failure.count * layers))


def merged(findings: Sequence[Finding], *, add: bool = True) -> list[Finding]:
    """One finding per cause, in the order of first meeting. Counts of one run add up; of several runs the largest."""
    kept: dict[tuple[Any, ...], Finding] = {}
    for finding in findings:
        held = kept.get(finding.cause)
        if held is None:
            kept[finding.cause] = finding
            continue
        a, b = held.failure, finding.failure
        count = a.count + b.count if add else max(a.count, b.count)
        kept[finding.cause] = replace(held, failure=replace(a, count=count, layers=max(a.layers, b.layers)))
    return list(kept.values())
