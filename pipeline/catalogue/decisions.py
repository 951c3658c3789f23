"""What becomes of a row of an imported catalogue, by what the row says; nothing of a model is read or executed.

Each row is either taken with a configuration (its own, or that of a near stock class) or dropped with a failure kind
and a sentence. The tables below hold words that the Hub uses; a row without any of them is judged by its class alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from agents.types import FailureKind
from pipeline.catalogue.entry import WeightsForm

Row = Mapping[str, Any]


class Decision(NamedTuple):
    """`kind` and `reason` are both None for a row that is taken."""

    weights_form: WeightsForm
    kind: str | None = None
    reason: str | None = None


LIBRARIES: dict[str, WeightsForm] = {
    "llama.cpp": WeightsForm.GGUF,
    "onnx": WeightsForm.ONNX,
    "onnxruntime": WeightsForm.ONNX,
    "transformers.js": WeightsForm.ONNX,
    "openvino": WeightsForm.OTHER,
    "mlx-embeddings": WeightsForm.OTHER,
    "litert": WeightsForm.OTHER,
    "coreml": WeightsForm.OTHER,
    "coremltools": WeightsForm.OTHER,
    "rk-transformers": WeightsForm.OTHER,
    "furiosa-llm": WeightsForm.OTHER,
}
"""Libraries that load weights of a form that stock transformers does not."""

NAMED: tuple[tuple[WeightsForm, re.Pattern[str]], ...] = (
    (WeightsForm.GGUF, re.compile(r"\bgguf\b")),
    (WeightsForm.ONNX, re.compile(r"\bonnx\b")),
    (WeightsForm.OTHER, re.compile(r"\b(mlx|openvino|ov|ct2|coreml|tflite|litert)\b")),
)
"""Words of a model's name that say in what form its weights are."""

PACKED = re.compile(
    r"\b(bnb ?)?([4568] ?bit|int[48]|uint8|w[48]a\d+|fp8|nvfp4|nf4|mxfp[48]|awq|gptq|oq\d|q[4-8]|bnb\d?)\b"
)
"""Words of a model's name that say that its weights are packed integers or floats of 8 bits and fewer."""

CONVERTED = "quantised or converted weights"
PACKED_COUNT = "count of packed weights"
STATIC = re.compile(r"\bstatic\b|word-average")
BOTH_WAYS = re.compile(r"bidirectional mask|without the causal mask|bidirec|bimodel|bidir", re.IGNORECASE)
"""What a source says, or a class is called, that lifts the causal mask of its trunk."""

REMAPPED = {"new": "gte"}
"""Model types of repository code whose `config.json` `adapters.remap` rewrites for a stock class."""


def decide(row: Row, has_config: bool) -> Decision:
    """The form of the row's weights, and why it is dropped, if it is. `has_config`: its own or a near one."""
    form = form_of(row)
    if is_static(row):
        return Decision(form, str(FailureKind.UNKNOWN_ARCHITECTURE), _said(row, _STATIC_TEXT))
    if form not in (WeightsForm.UNKNOWN, WeightsForm.SAFETENSORS):
        return Decision(form, str(FailureKind.NO_NATIVE_WEIGHTS), _said(row, _FORM_TEXT[form]))
    if is_packed(row):
        text = "its weights are quantised; use the unquantised original"
        return Decision(form, str(FailureKind.QUANTISED), _said(row, text))
    return Decision(form) if has_config else Decision(form, *_without_config(row))


def form_of(row: Row) -> WeightsForm:
    """In what form the repository holds its weights, as far as the row says.

    An exact parameter count is read from safetensors files, so there are some, whatever else the repository has; those
    of a PEFT adapter hold the adapter only.
    """
    if row.get("library") == "peft" or "(PEFT adapter)" in _reason(row):
        return WeightsForm.ADAPTER
    if _is_counted(row):
        return WeightsForm.SAFETENSORS
    by_library = LIBRARIES.get(str(row.get("library")))
    if by_library is not None:
        return by_library
    return next((form for form, words in NAMED if words.search(_words(row))), WeightsForm.UNKNOWN)


def is_packed(row: Row) -> bool:
    """True if the row's weights are quantised: its source or its name says so, and no count of plain weights."""
    if PACKED_COUNT in _reason(row):
        return True
    if _is_counted(row) or "unquantized" in _words(row):
        return False
    return bool(PACKED.search(_words(row))) or (CONVERTED in _reason(row) and "quant" in _words(row))


def is_static(row: Row) -> bool:
    """True for a table of word vectors: no transformer runs, on the device or elsewhere."""
    return row.get("config_ref") is None and bool(STATIC.search(_reason(row)))


def is_bidirectional(row: Row, note: str) -> bool:
    """True if the repository's own code lets every token see those after it, by its source or its class' name."""
    names = " ".join([str(row.get("model_type")), *(row.get("architectures") or ())])
    return any(BOTH_WAYS.search(text) for text in (note, _reason(row), names))


def _is_counted(row: Row) -> bool:
    return row.get("param_basis") == "exact count" and PACKED_COUNT not in _reason(row)


def _without_config(row: Row) -> tuple[str, str]:
    kind = FailureKind.REMOTE_CODE if row.get("custom_code") else FailureKind.UNKNOWN_ARCHITECTURE
    stock = REMAPPED.get(str(row.get("model_type")))
    if stock is not None:
        text = f"its config.json would be rewritten for the stock class {stock}, but the catalogue does not hold it"
        return str(FailureKind.UNKNOWN_ARCHITECTURE), _said(row, f"{text}; list it from the Hub")
    named = ", ".join(row.get("architectures") or ())
    reason = _reason(row) or "the catalogue holds no configuration for it"
    if kind is FailureKind.REMOTE_CODE and named:
        reason += f"; its class {named} is never executed, and no stock class is known to compute the same"
    return str(kind), _said(row, reason)


_STATIC_TEXT = "a table of word vectors: no transformer runs, so no patch is needed and nothing is executed"
_FORM_TEXT = {
    WeightsForm.ADAPTER: "it has PEFT adapter weights only; use the model they were trained on",
    WeightsForm.GGUF: "it has GGUF weights only; use the model they were made from",
    WeightsForm.ONNX: "it has ONNX weights only; use the model they were made from",
    WeightsForm.OTHER: "it has another framework's weights only; use the model they were made from",
}


def _reason(row: Row) -> str:
    return str(row.get("reason") or "")


def _words(row: Row) -> str:
    return re.sub(r"[-_./]+", " ", str(row["model_id"]).lower())


def _said(row: Row, text: str) -> str:
    return f"{row['model_id']!r}: {text}."
