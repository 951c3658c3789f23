"""The pattern table: what each pattern of the pattern library claims, where it stands in a set, how uses merge.

Ids, mathematics and bounds are those of the pattern library (`docs`: adapter patterns); the patches that carry them out
live in `adapters.patches`. A row is added when its patch exists.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

from agents.types import Exactness, PatternUse


class Stage(IntEnum):
    """The canonical order of a set: what changes the model's numbers first, what only runs on the host last."""

    DTYPE = 10
    SPLIT = 20
    PERMUTE = 30
    PAD = 40
    DOCUMENT = 50
    HOST = 55
    MASK = 60
    LAYOUT = 70
    BUCKET = 80
    POOLING = 90


class Merge(StrEnum):
    """How two values of one parameter become one."""

    EQUAL = "equal"
    """They must be equal: otherwise no single patch cures both causes."""
    LARGEST = "largest"
    COMMON_MULTIPLE = "common_multiple"
    WIDEST_RANGE = "widest_range"
    """Of two dtypes the one with the larger exponent range: a cause that asks for it overflows in the other."""


@dataclass(frozen=True)
class Pattern:
    """One row. `text` says what the patch does; `bound` is the patch's own claim, None if it is exact.

    `defaults` fill in what a diagnosis leaves open. `per` names the parameter that tells instances apart (one patch per
    module class); all other uses merge into one. `needs` are patterns without which this one changes results.
    """

    id: str
    stage: Stage
    text: str
    parameters: dict[str, Merge]
    exactness: Exactness = Exactness.EXACT
    bound: float | None = None
    per: str | None = None
    defaults: dict[str, Any] = field(default_factory=dict)
    needs: tuple[PatternUse, ...] = ()


DTYPE_RANGE = ("float16", "bfloat16", "float32")
"""Dtypes by exponent range, smallest first; float32 is last because the device computes little in it."""

ADDITIVE_MASK = PatternUse("P40", {"fill": "finfo_min_half"})


def _host(pattern: str, stage: Stage, text: str) -> Pattern:
    """The row of a part that moves to the host unchanged."""
    return Pattern(pattern, stage, text, {"placement": Merge.EQUAL}, defaults={"placement": "host"})


ROWS: tuple[Pattern, ...] = (
    Pattern(
        "P56",
        Stage.DTYPE,
        "the device run stores weights and activations as {dtype}",
        {"dtype": Merge.WIDEST_RANGE},
        exactness=Exactness.BOUNDED,
        bound=1e-2,
    ),
    Pattern(
        "P20",
        Stage.PAD,
        "attention heads of {head_dim} are padded with zeros to {padded_head_dim}, the scale stays that of {head_dim}",
        {"head_dim": Merge.EQUAL, "padded_head_dim": Merge.LARGEST},
    ),
    Pattern(
        "P01",
        Stage.DOCUMENT,
        "{module_class} is computed by a document of supported operations",
        {"module_class": Merge.EQUAL, "document": Merge.EQUAL},
        per="module_class",
    ),
    _host("P30", Stage.HOST, "embeddings are looked up on the {placement}"),
    _host("P32", Stage.HOST, "position ids are made on the {placement}"),
    _host("P47", Stage.HOST, "the relative position bias is looked up on the {placement}"),
    Pattern(
        "P40",
        Stage.MASK,
        "the boolean mask becomes an additive one of the model's dtype, built on the host and always present",
        {"fill": Merge.EQUAL},
        defaults={"fill": "finfo_min_half"},
    ),
    Pattern("P54", Stage.LAYOUT, "query, key and value are made contiguous before attention", {}),
    Pattern("P61", Stage.LAYOUT, "each block's output is cloned before the next block reads it", {}),
    Pattern(
        "P63",
        Stage.BUCKET,
        "the length is padded on the host to a multiple of {multiple} at the {side}, the result is cropped",
        {"multiple": Merge.COMMON_MULTIPLE, "side": Merge.EQUAL},
        defaults={"multiple": 64, "side": "right"},
        needs=(ADDITIVE_MASK,),
    ),
    _host("P80", Stage.POOLING, "pooling runs on the {placement} in fp32"),
    _host("P12", Stage.POOLING, "normalisation runs on the {placement} in fp32"),
)

PATTERNS: dict[str, Pattern] = {row.id: row for row in ROWS}
ORDER: dict[str, int] = {row.id: index for index, row in enumerate(sorted(ROWS, key=lambda row: row.stage))}
"""Rank of a pattern in a set: by stage, then by the table's order."""
