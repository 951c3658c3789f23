"""The gate's input as plain data: what was measured on each case, with JSON forms. Leaf module, imports no torch."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Place(StrEnum):
    """Where the candidate ran. Stored text."""

    DEVICE = "device"
    CPU = "cpu"


class Weights(StrEnum):
    """Whose weights the model had. Stored text."""

    REAL = "real"
    SYNTHETIC = "synthetic"


EMBEDDING, HALF = "embedding", "float16"
WORST_DRAW = "worst_draw_error_ratio"
"""The headline figure: error over that of the yardstick, in the draw that had most of it."""
"""The task that is judged, and the dtype that the device runs unless a patch says otherwise."""
SEMANTIC_CONTROLS = frozenset({
    "uniform_attention", "mask_dropped", "scale_dropped", "positions_dropped", "glu_swapped", "layer_skipped",
})  # fmt: skip
"""Structural mistakes; the other controls are outputs made from tensors alone. Stored text."""


@dataclass(frozen=True)
class ControlResult:
    """One broken output that the gate must refuse. Not applicable: `detail` says why and nothing is judged.

    `broken`: it should apply, but running it raised; `detail` holds the error.
    """

    name: str
    applicable: bool
    worst_token_cosine: float | None = None
    centred_pooled_cosine: float | None = None
    caught: bool = False
    detail: str = ""
    broken: bool = False


@dataclass(frozen=True)
class CaseMeasurement:
    """One batch compared with the stock fp32 CPU reference. None: not measured (or, centred, fewer than 3 texts).

    `draw` numbers the hidden draw, `side` is "right" or "left". `ideal_token_cosine` is the ideal DL16 run's.
    `company_token_cosine` compares texts alone with texts in the batch, on the same place. `yardstick` is whose error
    the error ratio divides by ("dl16" or "bfloat16"). `problem` says why the output could not be compared at all (empty
    or of another shape); then no figure counts. `scripts` and `empty_texts` describe the texts of the batch.
    """

    name: str
    draw: int
    side: str
    place: Place
    texts: int
    tokens: int
    lowest_token_cosine: float
    norm_low: float
    norm_high: float
    pooled_cosine: float
    centred_pooled_cosine: float | None
    finite: bool
    error_ratio: float | None = None
    ideal_token_cosine: float | None = None
    company_token_cosine: float | None = None
    controls: tuple[ControlResult, ...] = ()
    yardstick: str = "dl16"
    problem: str = ""
    scripts: tuple[str, ...] = ()
    empty_texts: int = 0


@dataclass(frozen=True)
class ExecutionProof:
    """What shows where the graph ran: fallback counts by operator, the declared host operators, compiled blocks run."""

    fallbacks: dict[str, int]
    declared_host: tuple[str, ...] = ()
    blocks_on_device: int = 0

    @property
    def undeclared(self) -> dict[str, int]:
        """Fallbacks outside the declared host parts."""
        return {op: n for op, n in self.fallbacks.items() if n and op not in self.declared_host}


class EquivalenceResult(StrEnum):
    """What is known about a patch's mathematics. Stored text; `docs/decisions` says how each is decided."""

    EXACT = "exact"
    BOUNDED = "bounded"
    NOT_EQUIVALENT = "not_equivalent"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Equivalence:
    """Whether one patch is the mathematics it replaces, judged before any model runs.

    `claim` is "exact" or "bounded", the latter with its `claimed_bound`. `bound` is the largest difference found:
    relative to max(1, |y|) for element-wise patches, to the largest value of its row for the others. `method` says how
    it was judged, over `points` compared values; `op` names where the first difference lies and
    `input_that_shows_it` what makes it visible. `detail` is one sentence for people.
    """

    patch: str
    claim: str
    result: EquivalenceResult
    method: str
    points: int
    bound: float | None = None
    claimed_bound: float | None = None
    op: str = ""
    input_that_shows_it: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Measurements:
    """Everything the gate sees.

    `needs_left_padding` is true for causal models; `patches` counts those whose mathematics must be known; `depth`
    is "full" or "2 of 36"; `task`, `dtype` (what the device runs) and `family` choose limits and exceptions.
    `without_text` names the oracles that need text and why they do not apply (the checkpoint has no tokenizer).
    """

    weights: Weights
    cases: tuple[CaseMeasurement, ...] = ()
    execution: ExecutionProof | None = None
    equivalence: tuple[Equivalence, ...] = ()
    patches: int = 0
    spearman: float | None = None
    spearman_pairs: int = 0
    needs_left_padding: bool = False
    depth: str = "full"
    task: str = EMBEDDING
    dtype: str = HALF
    family: str = ""
    without_text: dict[str, str] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data; figures that are not finite become text ("nan", "inf")."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


_FIGURES = frozenset({
    "lowest_token_cosine", "norm_low", "norm_high", "pooled_cosine", "centred_pooled_cosine", "error_ratio",
    "ideal_token_cosine", "company_token_cosine", "worst_token_cosine", "spearman", "bound", "claimed_bound",
})  # fmt: skip


def _numbers(data: dict[str, Any]) -> dict[str, Any]:
    return {k: float(v) if k in _FIGURES and v is not None else v for k, v in data.items()}


def case_from_dict(data: dict[str, Any]) -> CaseMeasurement:
    """The case whose plain form is `data`."""
    controls = tuple(ControlResult(**_numbers(c)) for c in data["controls"])
    changed = {"place": Place(data["place"]), "controls": controls, "scripts": tuple(data.get("scripts", ()))}
    return CaseMeasurement(**{**_numbers(data), **changed})


def equivalence_from_dict(data: dict[str, Any]) -> Equivalence:
    """The equivalence whose plain form is `data`."""
    return Equivalence(**{**_numbers(data), "result": EquivalenceResult(data["result"])})


def measurements_from_dict(data: dict[str, Any]) -> Measurements:
    """What `Measurements.to_dict` wrote, read back."""
    proof = data["execution"]
    execution = ExecutionProof(**{**proof, "declared_host": tuple(proof["declared_host"])}) if proof else None
    changed = {
        "weights": Weights(data["weights"]),
        "cases": tuple(case_from_dict(c) for c in data["cases"]),
        "execution": execution,
        "equivalence": tuple(equivalence_from_dict(e) for e in data["equivalence"]),
    }
    return Measurements(**{**_numbers(data), **changed})
