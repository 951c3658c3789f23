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

INSTEAD: dict[str, frozenset[str]] = {"P40": frozenset({"P45", "P49", "P52", "P96", "P08"})}
"""Patterns that serve where another is needed."""

COVERED_BY: dict[str, tuple[str, ...]] = {
    "P54": ("P41", "P42", "P55"),
    "P55": ("P41", "P42"),
    "P42": ("P41",),
}
"""Patterns of attention that do what another one does and more, strongest first: the two cannot stand in one set."""

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
    Pattern("P28", Stage.SPLIT, "transposed projections become plain linears", {}),
    Pattern("P27", Stage.SPLIT, "a projection of query, key and value at once becomes three", {}),
    Pattern("P06", Stage.SPLIT, "a gated projection of both halves becomes two", {}),
    Pattern("P51", Stage.SPLIT, "convolutions over tokens become products with shift matrices from the host", {}),
    Pattern(
        "P22",
        Stage.PAD,
        "the inner size {size} of feed-forward parts is padded with zeros to {padded}",
        {"size": Merge.EQUAL, "padded": Merge.LARGEST},
    ),
    Pattern(
        "P23",
        Stage.PAD,
        "the width {size} of what blocks hand on is padded with zeros to {padded}, norms count the real lanes",
        {"size": Merge.EQUAL, "padded": Merge.LARGEST},
        needs=(PatternUse("P30", {"placement": "host"}),),
    ),
    Pattern(
        "P21",
        Stage.PAD,
        "rotary heads of {head_dim} are padded to {padded_head_dim} by halves, the scale stays that of {head_dim}",
        {"head_dim": Merge.EQUAL, "padded_head_dim": Merge.LARGEST},
        needs=(PatternUse("P14"),),
    ),
    Pattern("P14", Stage.PAD, "rotary tables are made on the host, queries and keys are turned by a product", {}),
    Pattern("P18", Stage.PAD, "neighbouring pairs of queries and keys are turned by a product, tables on the host", {}),
    Pattern(
        "P46",
        Stage.DOCUMENT,
        "only the adapters of the language {language!r} run",
        {"language": Merge.EQUAL},
    ),
    Pattern(
        "P13",
        Stage.SPLIT,
        "the stream of residuals is divided by {factor}",
        {"factor": Merge.LARGEST},
        defaults={"factor": 64.0},
    ),
    Pattern("P03", Stage.DOCUMENT, "gelu written out with erf becomes the single operation", {}),
    Pattern(
        "P10",
        Stage.DOCUMENT,
        "RMS norms are computed in the run's dtype, held back by {scale}",
        {"scale": Merge.LARGEST},
        exactness=Exactness.BOUNDED,
        bound=1e-2,
        defaults={"scale": 1.0},
    ),
    Pattern("P11", Stage.DOCUMENT, "layer norms are written out in two passes", {}),
    Pattern("P57", Stage.DOCUMENT, "layer norms are computed in fp32 and rounded once", {}),
    Pattern("P58", Stage.DOCUMENT, "RMS norms are computed in fp32 and rounded once", {}),
    Pattern("P66", Stage.DOCUMENT, "blocks go without their look for infinities, which stock has in float16 only", {}),
    Pattern(
        "P60",
        Stage.LAYOUT,
        "the norms {names} read contiguous tensors",
        {"names": Merge.EQUAL},
        defaults={"names": ["q_norm", "k_norm"]},
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
    _host("P48", Stage.HOST, "the relative bias that blocks share is looked up on the {placement}"),
    _host("P50", Stage.HOST, "the bias by distance (ALiBi) is made on the {placement}"),
    Pattern(
        "P49",
        Stage.HOST,
        "look-ups of disentangled attention become products with one-hot tables",
        {},
        needs=(PatternUse("P30", {"placement": "host"}),),
    ),
    Pattern(
        "P52",
        Stage.HOST,
        "attention over chunks of a window becomes attention with a band mask from the {placement}",
        {"placement": Merge.EQUAL},
        defaults={"placement": "host"},
        needs=(PatternUse("P30", {"placement": "host"}),),
    ),
    Pattern(
        "P97",
        Stage.HOST,
        "attention over blocks is changed to full attention before the first call, longer texts are refused",
        {},
    ),
    Pattern(
        "P08",
        Stage.HOST,
        "rows are masked by factors, scores by an additive mask, both from the host",
        {},
        needs=(PatternUse("P30", {"placement": "host"}), PatternUse("P32", {"placement": "host"})),
    ),
    Pattern(
        "P96",
        Stage.HOST,
        "attention without a scale gets one mask per kind of layer (behind, or behind within a window) from the host",
        {"fill": Merge.EQUAL},
        defaults={"fill": "finfo_min_half"},
    ),
    Pattern(
        "P40",
        Stage.MASK,
        "the boolean mask becomes an additive one of the model's dtype, built on the host and always present",
        {"fill": Merge.EQUAL},
        defaults={"fill": "finfo_min_half"},
    ),
    Pattern(
        "P45",
        Stage.MASK,
        "every mask is made on the host by the model's own rule, as an additive one of the model's dtype",
        {"fill": Merge.EQUAL},
        defaults={"fill": "finfo_min_half"},
    ),
    Pattern("P54", Stage.LAYOUT, "query, key and value are made contiguous before attention", {}),
    Pattern("P42", Stage.LAYOUT, "attention is written out", {}),
    Pattern(
        "P41", Stage.LAYOUT, "attention is written out, masked weights are taken out and the rest renormalised", {}
    ),
    Pattern(
        "P55",
        Stage.LAYOUT,
        "grouped keys and values are folded into the rows of the queries",
        {},
        needs=(PatternUse("P45", {"fill": "finfo_min_half"}),),
    ),
    Pattern("P61", Stage.LAYOUT, "each block's output is cloned before the next block reads it", {}),
    Pattern(
        "P99",
        Stage.BUCKET,
        "the table of positions gets zero rows up to a multiple of {multiple}, counted and never read; positions come "
        "from the host",
        {"multiple": Merge.COMMON_MULTIPLE},
        defaults={"multiple": 64},
        needs=(PatternUse("P63", {"multiple": 64, "side": "right"}),),
    ),
    Pattern(
        "P63",
        Stage.BUCKET,
        "the length is padded on the host to a multiple of {multiple} at the {side}, the result is cropped",
        {"multiple": Merge.COMMON_MULTIPLE, "side": Merge.EQUAL},
        defaults={"multiple": 64, "side": "right"},
        needs=(ADDITIVE_MASK,),
    ),
    Pattern(
        "P98",
        Stage.BUCKET,
        "the patches of an image are padded on the host to a multiple of {multiple}, the result is cropped",
        {"multiple": Merge.COMMON_MULTIPLE},
        defaults={"multiple": 64},
        needs=(PatternUse("P30", {"placement": "host"}),),
    ),
    _host("P80", Stage.POOLING, "pooling runs on the {placement} in fp32"),
    _host("P12", Stage.POOLING, "normalisation runs on the {placement} in fp32"),
)

PATTERNS: dict[str, Pattern] = {row.id: row for row in ROWS}
ORDER: dict[str, int] = {row.id: index for index, row in enumerate(sorted(ROWS, key=lambda row: row.stage))}
"""Rank of a pattern in a set: by stage, then by the table's order."""
