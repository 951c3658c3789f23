"""One reproducer: synthetic data, shrunk, written; the signature it must fail with is measured here first."""

from __future__ import annotations

import math
from dataclasses import dataclass

from agents.types import Failure
from pipeline.diagnosis.reproducer.data import with_synthetic_values
from pipeline.diagnosis.reproducer.refusals import raised, raised_eagerly
from pipeline.diagnosis.reproducer.script import LONGEST, Setting, script_for
from pipeline.diagnosis.reproducer.shrink import shrunk
from pipeline.diagnosis.reproducer.signature import Signature, of_error
from pipeline.diagnosis.wrong_values.borders import reading
from pipeline.diagnosis.wrong_values.compare import Difference
from pipeline.diagnosis.wrong_values.device_runs import Refused
from pipeline.diagnosis.wrong_values.findings import Finding
from pipeline.diagnosis.wrong_values.outside import Eager
from pipeline.diagnosis.wrong_values.programs import Program
from pipeline.diagnosis.wrong_values.rounding import UNIT
from pipeline.verification.policy import current_policy


class NotReproduced(Exception):
    """No script shows the failure; the message says why, in one sentence."""


@dataclass(frozen=True)
class Reproducer:
    """A script and the signature it fails with."""

    script: str
    signature: Signature


def silent_reproducer(failure: Failure, program: Program, error: float, setting: Setting) -> Reproducer:
    """The reproducer of wrong values whose error in the model is `error`. Raises NotReproduced."""
    wanted = of_error(failure.op, error)

    def fails(tried: Program) -> bool:
        found = _measured(with_synthetic_values(tried), failure)
        return found is not None and found.wrong and of_error(failure.op, found.error).same_as(wanted)

    if not fails(program):
        raise NotReproduced("synthetic values of the same size and spread do not show an error of this size")
    small = with_synthetic_values(shrunk(program, fails))
    found = _measured(small, failure)
    assert found is not None
    limit = current_policy().diagnosis["explained"] * max(found.explained, UNIT / 2)
    eager = isinstance(program, Eager)
    return _written(failure, small, setting, of_error(failure.op, found.error), limit=limit, eager=eager)


def _measured(program: Program, failure: Failure) -> Difference | None:
    try:
        return reading(program) if failure.op == "block" else program.compare()
    except Refused:
        return None


def loud_reproducer(failure: Failure, program: Program, setting: Setting, *, eager: bool) -> Reproducer:
    """The reproducer of a refusal. Raises NotReproduced."""
    ask = raised_eagerly if eager else raised

    def fails(tried: Program) -> bool:
        return ask(with_synthetic_values(tried), failure.op).kind == failure.kind

    if not fails(program):
        raise NotReproduced("the operation is not refused by itself")
    small = with_synthetic_values(shrunk(program, fails))
    return _written(failure, small, setting, ask(small, failure.op), eager=eager)


def _written(
    failure: Failure,
    program: Program,
    setting: Setting,
    signature: Signature,
    *,
    limit: float = 0.0,
    eager: bool = False,
) -> Reproducer:
    text = script_for(failure, program, setting, limit=limit, eager=eager)
    if len(text.splitlines()) >= LONGEST:
        raise NotReproduced(f"the smallest failing graph needs {LONGEST} lines or more")
    return Reproducer(text, signature)


def reproducer_of(finding: Finding, setting: Setting) -> Reproducer:
    """The reproducer of a silent cause. Raises NotReproduced."""
    if finding.program is None:
        raise NotReproduced("the cause shows in the whole model only, no small graph has it")
    error = finding.evidence["error"]
    return silent_reproducer(finding.failure, finding.program, math.inf if error is None else error, setting)
