"""What to do where no pattern applies: "no patch needed", or "cannot be patched because" with the way out.

A diagnosis's `no_patch` holds the sentence. Kinds that are not in either table stay open: a drafter may find a patch.
"""

from __future__ import annotations

from agents.types import Failure, FailureKind
from pipeline.diagnosis.names import packet

_K = FailureKind
NOT_NEEDED: dict[FailureKind, str] = {
    _K.CPU_FALLBACK: "falls back to the CPU with right values",
    _K.CPU_REFERENCE: "no patch needed: the device holds these values; compare with a float32 run on the CPU",
}
"""The values on the device are right."""
IMPOSSIBLE: dict[FailureKind, str] = {
    _K.REMOTE_CODE: "the model's code is not in transformers and is never run; ask for a port to transformers",
    _K.UNKNOWN_ARCHITECTURE: "transformers has no model of this type; use a checkpoint of a type it knows",
    _K.GATED: "the files are not public; accept the licence on the Hub and give the installation a token",
    _K.QUANTISED: "the weights are quantised; use the float checkpoint that they were made from",
    _K.NO_NATIVE_WEIGHTS: "there are only GGUF, ONNX or PEFT files; use the checkpoint with safetensors weights",
    _K.PICKLE_WEIGHTS: "the weights are a pickle, which can run code; convert them to safetensors",
    _K.MALFORMED: "a file of the checkpoint cannot be read; fetch it again or ask its author to upload it anew",
    _K.TOO_LARGE: "the weights do not fit this machine; diagnose it on a larger one",
}
"""The fault lies in the checkpoint's files or in its code, where no replacement of operations reaches."""

ADVICE: dict[FailureKind, str] = {
    _K.TIMEOUT: "it did not end in time; try a smaller checkpoint of the family, or the same one on an idle machine",
    _K.CRASHED: "its process ended without an answer; run the model on the CPU to see whether it does so there too",
}
"""Whose fault it is, is not known: a patch may help, and nothing was traced that it could be drafted from."""


PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "matmul", "linear"})
CANNOT = "cannot be patched: "
NO_OTHER_FORM = (
    "a product of two matrices alone is wrong on the device for their sizes, where its operands are contiguous and "
    "fill whole sticks. In parts it would be the same mathematics, but why this size is wrong is not known, so nothing "
    "says that the device computes the parts rightly. Run the model on the CPU, and hand the reproducer to whoever "
    "makes the device's software"
)


def answer_to(failure: Failure) -> str | None:
    """The sentence for a failure that no pattern cures; None where a patch may yet be drafted.

    Of a product that is wrong for a size and nothing else there is no other form: a product has no smaller operations.
    """
    wrong = failure.kind is _K.WRONG_VALUES and failure.scalars[:1] == ("size",)
    if wrong and packet(failure.op) in PRODUCTS:
        return f"{CANNOT}{NO_OTHER_FORM} ({failure.message})"
    return answer_for(failure.kind)


def answer_for(kind: FailureKind) -> str | None:
    """The sentence for a failure that no pattern cures; None where a patch may yet be drafted."""
    if kind in IMPOSSIBLE:
        return f"{CANNOT}{IMPOSSIBLE[kind]}"
    return NOT_NEEDED.get(kind)


def advice_for(kind: FailureKind) -> str | None:
    """What a person can do about a checkpoint that could not be diagnosed; None where there is nothing to say."""
    return answer_for(kind) or ADVICE.get(kind)
