"""Which pattern could cure which failure: a table over kind, op, place and structure; parameters from the diagnosis.

Pattern ids are those of the pattern library. Nothing here names a model, a model type or a device defect: rows look at
the failure and at structural facts of the model only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agents.types import Failure, FailureKind, PatternUse

STICK = 64
"""Elements of a 16-bit stick: 128 bytes."""


@dataclass(frozen=True)
class Facts:
    """Structural facts of the model: size of its attention heads, and the class of each element-wise module by path.

    `relative_bias` says that a table of biases by distance is added to the scores, `counted_positions` that positions
    are counted over ids that are not padding. `rotary` says that queries and keys are turned by position, `fused` how
    wide a projection is that gives query, key and value at once (0: there is none that P27 splits).
    """

    head_dim: int | None = None
    causal: bool = False
    relative_bias: bool = False
    counted_positions: bool = False
    rotary: bool = False
    fused: int = 0
    elementwise: dict[str, str] = field(default_factory=dict)
    chunked: frozenset[str] = frozenset()
    """Paths of attention over chunks of a window, layer numbers as `*`."""


@dataclass(frozen=True)
class Row:
    """If `when` holds for a failure, `use` gives the pattern with its parameters."""

    when: Callable[[Failure, Facts], bool]
    use: Callable[[Failure, Facts], PatternUse]


def patterns_for(failure: Failure, facts: Facts) -> tuple[PatternUse, ...]:
    """Every pattern whose row fits, in the table's order."""
    return tuple(row.use(failure, facts) for row in ROWS if row.when(failure, facts))


def padded(head_dim: int) -> int:
    """The next whole number of sticks."""
    return -(-head_dim // STICK) * STICK


def from_pooling(failure: Failure) -> bool:
    """True for operations of the pooling and normalisation modules."""
    return failure.source.startswith("embedder.py") or failure.module.split(".")[-1] in {"pooling", "normalize"}


def from_masks(failure: Failure) -> bool:
    """True for operations that build or consume a boolean attention mask."""
    builds = failure.source.startswith("masking_utils.py")
    consumes = "bool" in failure.dtypes and failure.kind in (FailureKind.UNSUPPORTED_OP, FailureKind.UNSUPPORTED_DTYPE)
    return builds or consumes or "mask" in failure.module


def needs_narrow_dtype(failure: Failure) -> bool:
    """True where an operation refuses fp32 operands."""
    refused = failure.kind in (FailureKind.UNSUPPORTED_DTYPE, FailureKind.LAYOUT) and "float32" in failure.dtypes
    if failure.kind is FailureKind.LAYOUT and "IEEE_FP32" not in failure.message:
        return False
    return refused and failure.dtype_run == "float32" and not from_pooling(failure)


def makes_relative_bias(failure: Failure, facts: Facts) -> bool:
    """True for the integer arithmetic, outside the blocks, that turns distances into rows of the bias table."""
    inside = failure.place == "outside" and failure.module.split(".")[-1] == "encoder"
    return facts.relative_bias and inside and failure.kind in REFUSED_OR_MOVED


def counts_positions(failure: Failure, facts: Facts) -> bool:
    """True for the operations that count positions over ids."""
    inside = failure.place == "outside" and "embeddings" in failure.module.split(".")
    return facts.counted_positions and inside and failure.kind in REFUSED_OR_MOVED


def makes_rotary_tables(failure: Failure, facts: Facts) -> bool:
    """True for what makes the tables of rotary positions, outside the blocks."""
    kinds = REFUSED_OR_MOVED | {FailureKind.LAYOUT}
    return facts.rotary and "rotary" in failure.module.split(".")[-1] and failure.kind in kinds


def chunks_windows(failure: Failure, facts: Facts) -> bool:
    """True for what a model with attention over chunks of a window does in it, or with masks outside its blocks."""
    outside = failure.place == "outside" and "embeddings" not in failure.module.split(".") and not from_pooling(failure)
    inside = any(failure.module.startswith(path) for path in facts.chunked) and "addmm" not in failure.op
    kinds = REFUSED_OR_MOVED | {FailureKind.LAYOUT, FailureKind.SHAPE_LIMIT, FailureKind.GRAPH_BREAK}
    return bool(facts.chunked) and (outside or inside) and failure.kind in kinds and not needs_narrow_dtype(failure)


def looks_up(failure: Failure, facts: Facts) -> bool:
    """True for look-ups of embeddings that are refused; counting positions is another cause."""
    inside = failure.place == "outside" and "embeddings" in failure.module.split(".")
    refused = failure.kind in (FailureKind.LAYOUT, FailureKind.UNSUPPORTED_OP) and failure.dtype_run != ""
    return inside and refused and not counts_positions(failure, facts)


def divides_fused(failure: Failure, facts: Facts) -> bool:
    """True where the result of a projection that is query, key and value at once is taken apart."""
    width = failure.shapes[0][-1] if failure.shapes and failure.shapes[0] else 0
    return splits_stick(failure, facts) and facts.fused > 0 and width == facts.fused


def splits_stick(failure: Failure, facts: Facts) -> bool:
    """True where heads do not fill whole sticks."""
    layout = failure.kind in (FailureKind.LAYOUT, FailureKind.SHAPE_LIMIT) and failure.place == "block"
    return layout and facts.head_dim is not None and facts.head_dim % STICK != 0


def refuses_few_rows(failure: Failure, facts: Facts) -> bool:
    """True where a product over whole heads is refused for its number of rows: padded lengths have enough of them."""
    product = "mm" in failure.op or "scaled_dot_product" in failure.op
    return failure.kind is FailureKind.SHAPE_LIMIT and failure.place == "block" and product


def is_wrong(op: str, cause: str) -> Callable[[Failure, Facts], bool]:
    """Wrong values of `op` that an experiment narrowed to `cause` ("layout", "length", "border" or "value")."""

    def when(failure: Failure, _facts: Facts) -> bool:
        return failure.kind is FailureKind.WRONG_VALUES and op in failure.op and failure.scalars[:1] == (cause,)

    return when


def constant(pattern: str, **parameters: Any) -> Callable[[Failure, Facts], PatternUse]:
    """A pattern whose parameters do not depend on the failure."""
    return lambda _failure, _facts: PatternUse(pattern, dict(parameters))


def in_elementwise_module(failure: Failure, facts: Facts) -> bool:
    """True where the failing operation lies inside an element-wise module (an activation)."""
    return failure.kind in REPLACED and module_class(failure, facts) is not None


def module_class(failure: Failure, facts: Facts) -> str | None:
    """The class of the element-wise module a failure lies in, by the longest matching path."""
    paths = [p for p in facts.elementwise if failure.module == p or failure.module.startswith(p + ".")]
    return facts.elementwise[max(paths, key=len)] if paths else None


REPLACED = frozenset(
    {FailureKind.UNSUPPORTED_OP, FailureKind.WRONG_VALUES, FailureKind.NON_FINITE, FailureKind.CPU_FALLBACK}
)
"""What another form of the same function can cure."""

REFUSED_OR_MOVED = frozenset({FailureKind.UNSUPPORTED_OP, FailureKind.UNSUPPORTED_DTYPE, FailureKind.CPU_FALLBACK})

ROWS: tuple[Row, ...] = (
    Row(lambda f, _: needs_narrow_dtype(f), constant("P56", dtype="float16")),
    Row(divides_fused, constant("P27")),
    Row(
        lambda f, facts: splits_stick(f, facts) and not divides_fused(f, facts),
        lambda _f, facts: PatternUse(
            "P21" if facts.rotary else "P20",
            {"head_dim": facts.head_dim, "padded_head_dim": padded(facts.head_dim or 0)},
        ),
    ),
    Row(chunks_windows, constant("P52", placement="host")),
    Row(
        lambda f, facts: from_masks(f) and not from_pooling(f) and not facts.chunked,
        lambda _f, facts: PatternUse("P45" if facts.rotary else "P40", {"fill": "finfo_min_half"}),
    ),
    Row(makes_rotary_tables, constant("P14")),
    Row(makes_relative_bias, constant("P47", placement="host")),
    Row(counts_positions, constant("P32", placement="host")),
    Row(looks_up, constant("P30", placement="host")),
    Row(lambda f, _: from_pooling(f), constant("P80", placement="host")),
    Row(in_elementwise_module, lambda f, facts: PatternUse("P01", {"module_class": module_class(f, facts)})),
    Row(is_wrong("scaled_dot_product_attention", "layout"), constant("P54")),
    Row(
        lambda f, facts: (
            (refuses_few_rows(f, facts) and not splits_stick(f, facts))
            or is_wrong("scaled_dot_product_attention", "length")(f, facts)
        ),
        lambda _f, facts: PatternUse("P63", {"multiple": STICK, "side": "left" if facts.causal else "right"}),
    ),
    Row(is_wrong("block", "border"), constant("P61")),
)
