"""What a failure looks like from outside: kind, operation, size of the error. Equal signatures, same failure."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum

from agents.types import FailureKind
from pipeline.diagnosis.classify import Raised, classify

FACTOR = 2.0
"""Sizes of two errors within this factor are the same."""
PRINTED = re.compile(r"^(\w+) in ([\w.]+): (.*)$", re.MULTILINE)
_NUMBER = re.compile(r"relative error ([\w.+-]+)")


class ErrorClass(StrEnum):
    """How large an error is. Stored text."""

    NOT_FINITE = "not finite"
    ORDER_ONE = "order one"
    PERCENT = "percent"
    SMALL = "small"
    RAISED = "raised"


@dataclass(frozen=True)
class Signature:
    """`error` is the relative error, None for what is raised or not finite."""

    kind: FailureKind
    op: str
    error_class: ErrorClass
    error: float | None = None

    def same_as(self, other: Signature) -> bool:
        """True if kind and operation are equal and the error is of one class, or within the factor."""
        if (self.kind, self.op) != (other.kind, other.op):
            return False
        if self.error is None or other.error is None:
            return self.error_class == other.error_class
        return self.error_class == other.error_class or 1 / FACTOR <= self.error / other.error <= FACTOR


def class_of(error: float) -> ErrorClass:
    """The class of a relative error."""
    if not math.isfinite(error):
        return ErrorClass.NOT_FINITE
    return ErrorClass.ORDER_ONE if error >= 0.1 else ErrorClass.PERCENT if error >= 0.01 else ErrorClass.SMALL


def of_error(op: str, error: float) -> Signature:
    """The signature of wrong or not finite values."""
    if not math.isfinite(error):
        return Signature(FailureKind.NON_FINITE, op, ErrorClass.NOT_FINITE)
    return Signature(FailureKind.WRONG_VALUES, op, class_of(error), error)


def of_raised(op: str, error: BaseException) -> Signature:
    """The signature of an exception; one that only wraps another is unwrapped."""
    inner = getattr(error, "inner_exception", None) or error
    return Signature(classify(Raised(type(inner).__name__, "", str(inner))), op, ErrorClass.RAISED)


def printed(stderr: str) -> Signature | None:
    """The signature that a reproducer printed; None if it printed none."""
    found = list(PRINTED.finditer(stderr))
    if not found:
        return None
    name, op, text = found[-1].groups()
    if number := _NUMBER.match(text):
        return of_error(op, float(number[1]))
    if name == FailureKind.CPU_FALLBACK:
        return Signature(FailureKind.CPU_FALLBACK, op, ErrorClass.RAISED)
    rest = stderr[found[-1].start(3) :]
    return Signature(classify(Raised(name, "", rest)), op, ErrorClass.RAISED)
