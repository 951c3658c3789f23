"""Which pattern could cure which failure: a table over kind, op, place and structure; parameters from the diagnosis.

Pattern ids are those of the pattern library. Nothing here names a model, a model type or a device defect: rows look at
the failure and at structural facts of the model only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agents.types import Failure, FailureKind, PatternUse
from pipeline.diagnosis.names import packet, written

STICK = 64
"""Elements of a 16-bit stick: 128 bytes."""


@dataclass(frozen=True)
class Facts:
    """Structural facts of the model: size of its attention heads, and the class of each element-wise module by path.

    `relative_bias` says that one bias by distance is made for all blocks at once, `counted_positions` that positions
    are counted over ids that are not padding. `rotary` says that queries and keys are turned by position, `fused` how
    wide a projection is that gives query, key and value at once (0: there is none that P27 splits). `parts` holds, for
    patterns that say so themselves, the module paths they act on (layer numbers as `*`); `inner` is the inner size of
    feed-forward parts where it fills no whole sticks (else 0), `width` likewise that of what blocks hand on,
    `language` the one that the config names as default. `pools` says that the model itself picks a vector of each text.
    """

    head_dim: int | None = None
    causal: bool = False
    relative_bias: bool = False
    counted_positions: bool = False
    rotary: bool = False
    fused: int = 0
    elementwise: dict[str, str] = field(default_factory=dict)
    parts: dict[str, frozenset[str]] = field(default_factory=dict)
    inner: int = 0
    language: str = ""
    width: int = 0
    pools: bool = False


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


def pools_itself(failure: Failure, facts: Facts) -> bool:
    """True for what finds the end of each text in the model's own code, behind its blocks."""
    own = failure.place == "outside" and not path_of(failure) and not from_masks(failure)
    return facts.pools and own and failure.kind in REFUSED_OR_MOVED


NORMALISING = frozenset({"linalg_vector_norm", "clamp_min"})
"""Packets that normalisation has and pooling has not."""


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


def counts_in_model(failure: Failure, facts: Facts) -> bool:
    """True where the model itself counts the places of a table of learned positions."""
    own = failure.place == "outside" and not path_of(failure) and not from_masks(failure) and not from_pooling(failure)
    return bool(facts.parts.get("P32")) and own and packet(failure.op) == "arange" and failure.kind in REFUSED_OR_MOVED


def makes_rotary_tables(failure: Failure, facts: Facts) -> bool:
    """True for what makes the tables of rotary positions, outside the blocks."""
    kinds = REFUSED_OR_MOVED | {FailureKind.LAYOUT}
    return facts.rotary and "rotary" in failure.module.split(".")[-1] and failure.kind in kinds


def counts_for_rotation(failure: Failure, facts: Facts) -> bool:
    """True where the model itself counts the positions that rotary tables are made of."""
    own = failure.place == "outside" and not path_of(failure) and not from_masks(failure) and not from_pooling(failure)
    return facts.rotary and own and packet(failure.op) == "arange" and failure.kind in REFUSED_OR_MOVED


def compares_pairs(failure: Failure, facts: Facts) -> bool:
    """True for a rule of allowed pairs that the model brings to its masks: integers [..., length, length]."""
    own = failure.place == "outside" and not path_of(failure) and not from_masks(failure)
    square = bool(failure.shapes) and len(failure.shapes[0]) > 1 and failure.shapes[0][-1] == failure.shapes[0][-2]
    integers = bool(failure.dtypes) and set(failure.dtypes) <= INTEGERS
    return facts.rotary and own and square and integers and failure.kind in REFUSED_OR_MOVED


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
REFUSED = frozenset({FailureKind.UNSUPPORTED_OP, FailureKind.LAYOUT, FailureKind.SHAPE_LIMIT})
SILENT = frozenset({FailureKind.WRONG_VALUES, FailureKind.NON_FINITE})
BROKEN = REFUSED | SILENT | {FailureKind.UNSUPPORTED_DTYPE, FailureKind.RUNTIME_ABORT}
BRANCHING = BROKEN | {FailureKind.GRAPH_BREAK, FailureKind.DYNAMIC_SHAPE, FailureKind.CPU_FALLBACK}

HALVING = frozenset({"cat", "slice", "split", "split_with_sizes", "chunk", "neg", "stack", "view", "unbind", "glu"})
"""Packets that take a tensor apart, or put one together, along its last axis."""
INTEGERS = frozenset({"int64", "int32", "bool"})


def path_of(failure: Failure) -> str:
    """The failure's module below the model: reports are of the model with its pooling around it."""
    return "" if failure.module == "model" else failure.module.removeprefix("model.")


def at(pattern: str, failure: Failure, facts: Facts) -> bool:
    """True where the code of a module that the pattern acts on failed, not that of a module inside it."""
    return bool({path_of(failure), failure.module} & facts.parts.get(pattern, frozenset()))


def inside(pattern: str, failure: Failure, facts: Facts) -> bool:
    """True where something failed in a module that the pattern acts on, or in one inside it."""
    paths = facts.parts.get(pattern, frozenset())
    return any(f"{here}.".startswith(f"{path}.") for path in paths for here in (path_of(failure), failure.module))


def broken_at(pattern: str, kinds: frozenset[FailureKind] = BROKEN) -> Callable[[Failure, Facts], bool]:
    """A failure of these kinds in the code of a module that the pattern acts on; a narrow dtype does not cure it."""
    return lambda f, facts: f.kind in kinds and not needs_narrow_dtype(f) and at(pattern, f, facts)


def halves(pattern: str) -> Callable[[Failure, Facts], bool]:
    """A module that the pattern acts on fails where it takes a tensor apart."""
    return lambda f, facts: broken_at(pattern)(f, facts) and packet(f.op) in HALVING


def turns_halves(failure: Failure, facts: Facts) -> bool:
    """True where the halves of whole heads are exchanged to turn them, inside a stick."""
    whole = facts.rotary and facts.head_dim is not None and facts.head_dim % STICK == 0
    exchanged = failure.kind in REFUSED and failure.place == "block" and packet(failure.op) in HALVING
    return whole and exchanged and "P18" not in facts.parts and not divides_fused(failure, facts)


def makes_block_bias(failure: Failure, facts: Facts) -> bool:
    """True for the integer arithmetic inside a block that turns distances into rows of its bias table."""
    integers = set(failure.dtypes) <= INTEGERS and "ttention" in failure.module.split(".")[-1]
    return failure.kind in REFUSED_OR_MOVED and integers and inside("P48", failure, facts)


def looks_for_infinities(failure: Failure, _facts: Facts) -> bool:
    """True for the test of a block's values against the range of float16.

    P66 leaves it out; where that does not fit, a dtype of wider range goes without.
    """
    return failure.kind in BRANCHING and failure.place == "block" and packet(failure.op) == "isinf"


def makes_alibi(failure: Failure, facts: Facts) -> bool:
    """True for what makes the bias by distance in the model's own code, outside the blocks."""
    apart = failure.place == "outside" and not from_masks(failure) and not from_pooling(failure)
    return apart and failure.kind in REFUSED_OR_MOVED and at("P50", failure, facts)


def fills_no_stick(failure: Failure, facts: Facts) -> bool:
    """True where a feed-forward part's inner size, which fills no whole sticks, is refused."""
    refused = failure.kind in (FailureKind.LAYOUT, FailureKind.SHAPE_LIMIT) and failure.place == "block"
    return refused and facts.inner > 0 and any(facts.inner in shape for shape in failure.shapes)


def asks_for_length(failure: Failure, facts: Facts) -> bool:
    """True where padded lengths of texts are the cure: too few rows, or attention that is wrong for the length."""
    of_heads = splits_stick(failure, facts) or fills_no_stick(failure, facts)
    few = refuses_few_rows(failure, facts) and not of_heads and not facts.parts.get("P98")
    return few or is_wrong("scaled_dot_product_attention", "length")(failure, facts)


def hands_on_no_stick(failure: Failure, facts: Facts) -> bool:
    """True where the vectors that blocks hand on, which fill no whole sticks, are refused."""
    refused = failure.kind in (FailureKind.LAYOUT, FailureKind.SHAPE_LIMIT) and failure.place == "block"
    return refused and facts.width > 0 and any(shape and shape[-1] == facts.width for shape in failure.shapes)


def attends_wrongly(*causes: str) -> Callable[[Failure, Facts], bool]:
    """Fused attention or its softmax is wrong under one of the conditions."""

    def when(failure: Failure, _facts: Facts) -> bool:
        of_attention = written(failure.op) in ("scaled_dot_product_attention", "softmax")
        return (
            failure.kind in SILENT and of_attention and str(failure.scalars[:1][0] if failure.scalars else "") in causes
        )

    return when


def attention_refused(failure: Failure, facts: Facts) -> bool:
    """True where fused attention itself is refused, not its mask and not its dtype."""
    fused = written(failure.op) == "scaled_dot_product_attention"
    own = (
        failure.kind in REFUSED - {FailureKind.SHAPE_LIMIT}
        and not from_masks(failure)
        and not splits_stick(failure, facts)
    )
    return fused and own and not needs_narrow_dtype(failure)


def repeats_keys(failure: Failure, facts: Facts) -> bool:
    """True where keys and values are repeated for the queries of their group: an expanded axis of five."""
    five = any(len(shape) == 5 for shape in failure.shapes) and packet(failure.op) in ("expand", "view", "clone")
    return failure.kind in BROKEN and five and bool(facts.parts.get("P55")) and failure.source.startswith("sdpa_")


def reads_repeated(failure: Failure, facts: Facts) -> bool:
    """True where attention is wrong for keys that a view repeats: copies made before they are repeated mend nothing."""
    five = any(len(shape) == 5 for shape in failure.shapes)
    wrong = is_wrong("scaled_dot_product_attention", "layout")(failure, facts)
    return wrong and five and bool(facts.parts.get("P55") or facts.parts.get("P42"))


def reads_transposed(failure: Failure, facts: Facts) -> bool:
    """True where the norm of single heads is refused, or wrong, for the transposed tensor that it reads.

    It may be wrong only in one graph with the copy of its result.
    """
    wrong = failure.kind is FailureKind.WRONG_VALUES and failure.scalars[:1] in (("layout",), ("fused",))
    return (wrong or failure.kind is FailureKind.LAYOUT) and inside("P60", failure, facts)


def norm_names(failure: Failure, _facts: Facts) -> PatternUse:
    """P60 for both norms of the heads, whichever failed."""
    return PatternUse("P60", {"names": ["q_norm", "k_norm"]})


def rms_norm(failure: Failure, _facts: Facts) -> PatternUse:
    """P10; values that are not finite are held back by a power of two before they are squared."""
    return PatternUse("P10", {"scale": 64.0 if failure.kind is FailureKind.NON_FINITE else 1.0})


OWN_MASKS = ("P08", "P49", "P52", "P96")
"""Patterns that replace attention together with the masks that go with it."""


def in_windows(pattern: str) -> Callable[[Failure, Facts], bool]:
    """True for what such attention does in its own code, and for the masks outside the blocks."""

    def when(failure: Failure, facts: Facts) -> bool:
        if not facts.parts.get(pattern) or needs_narrow_dtype(failure) or from_pooling(failure):
            return False
        outside = failure.place == "outside" and "embeddings" not in failure.module.split(".")
        masks = outside and (pattern != "P96" or from_masks(failure))
        return failure.kind in BRANCHING and (masks or at(pattern, failure, facts))

    return when


ROUNDED = ("model", "rounding")
"""Operation and first scalar of a failure that says: nothing is wrong but the sum of all rounding."""


def rounds_too_often(pattern: str) -> Callable[[Failure, Facts], bool]:
    """The whole model is right and not exact enough, and has what the pattern computes with fewer roundings."""
    return lambda f, facts: (f.op, *f.scalars[:1]) == ROUNDED and bool(facts.parts.get(pattern))


CONVOLVING = frozenset({"convolution", "conv1d", "im2col", "unfold", "constant_pad_nd"})
"""Packets that a convolution over tokens is made of."""


def convolves(failure: Failure, facts: Facts) -> bool:
    """True where a convolution over tokens fails, or the code around one that the pattern replaces."""
    inner = packet(failure.op) in CONVOLVING and inside("P51", failure, facts)
    return failure.kind in BRANCHING and not needs_narrow_dtype(failure) and (inner or at("P51", failure, facts))


def uses_mask(failure: Failure, facts: Facts) -> bool:
    """True for a mask, but for what P48 makes on the host and for models whose attention brings its own masks."""
    own = any(facts.parts.get(pattern) for pattern in OWN_MASKS)
    other = own or makes_block_bias(failure, facts)
    return from_masks(failure) and not from_pooling(failure) and not other


def overflows_in_stream(failure: Failure, facts: Facts) -> bool:
    """True where sums of residuals leave the range of float16, or the norms that read them do."""
    if failure.kind is not FailureKind.NON_FINITE or failure.dtype_run != "float16" or not facts.parts.get("P13"):
        return False
    return (failure.place == "block" and packet(failure.op) == "add") or at("P13", failure, facts)


def by_own_rule(facts: Facts) -> bool:
    """True where masks are made by the model's own rule on the host.

    That is in rotary models, in those P40 is not for, and where the model reads the caller's mask of two axes itself
    (it counts the places of its bias by distance over it): a prepared mask has four.
    """
    return facts.rotary or ("P45" in facts.parts and ("P40" not in facts.parts or "P50" in facts.parts))


def changes_to_full(failure: Failure, facts: Facts) -> bool:
    """True for the attention over blocks that stock leaves at its first short text, and for that change itself."""
    of_change = failure.place == "outside" and failure.kind in (FailureKind.GRAPH_BREAK, FailureKind.DYNAMIC_SHAPE)
    return (of_change and bool(facts.parts.get("P97"))) or broken_at("P97", BRANCHING)(failure, facts)


ROWS: tuple[Row, ...] = (
    Row(lambda f, _: needs_narrow_dtype(f), constant("P56", dtype="float16")),
    Row(divides_fused, constant("P27")),
    Row(
        lambda f, facts: splits_stick(f, facts) and not divides_fused(f, facts) and not hands_on_no_stick(f, facts),
        lambda _f, facts: PatternUse(
            "P21" if facts.rotary else "P20",
            {"head_dim": facts.head_dim, "padded_head_dim": padded(facts.head_dim or 0)},
        ),
    ),
    Row(changes_to_full, constant("P97")),
    Row(in_windows("P08"), constant("P08")),
    *(Row(in_windows("P52"), constant("P52", placement="host")), Row(in_windows("P96"), constant("P96"))),
    Row(
        uses_mask,
        lambda _f, facts: PatternUse("P45" if by_own_rule(facts) else "P40", {"fill": "finfo_min_half"}),
    ),
    Row(compares_pairs, constant("P45", fill="finfo_min_half")),
    Row(lambda f, facts: makes_rotary_tables(f, facts) and "P18" not in facts.parts, constant("P14")),
    Row(turns_halves, constant("P14")),
    Row(lambda f, facts: counts_for_rotation(f, facts) and "P18" not in facts.parts, constant("P14")),
    Row(halves("P18"), constant("P18")),
    Row(lambda f, facts: makes_rotary_tables(f, facts) and "P18" in facts.parts, constant("P18")),
    Row(makes_relative_bias, constant("P47", placement="host")),
    Row(counts_positions, constant("P32", placement="host")),
    Row(counts_in_model, constant("P32", placement="host")),
    Row(looks_up, constant("P30", placement="host")),
    Row(lambda f, _: from_pooling(f), constant("P80", placement="host")),
    Row(lambda f, facts: pools_itself(f, facts) and not from_pooling(f), constant("P80", placement="host")),
    Row(lambda f, _: from_pooling(f) and packet(f.op) in NORMALISING, constant("P12", placement="host")),
    Row(in_elementwise_module, lambda f, facts: PatternUse("P01", {"module_class": module_class(f, facts)})),
    Row(
        lambda f, facts: is_wrong("scaled_dot_product_attention", "layout")(f, facts) and not reads_repeated(f, facts),
        constant("P54"),
    ),
    Row(reads_repeated, constant("P55")),
    Row(reads_repeated, constant("P42")),
    Row(
        lambda f, facts: asks_for_length(f, facts) and not facts.parts.get("P99"),
        lambda _f, facts: PatternUse(
            "P63", {"multiple": STICK, "side": "left" if facts.causal and facts.rotary else "right"}
        ),
    ),
    Row(
        lambda f, facts: bool(facts.parts.get("P99")) and asks_for_length(f, facts),
        constant("P99", multiple=STICK),
    ),
    Row(
        lambda f, facts: bool(facts.parts.get("P98")) and f.place == "block" and f.kind in REFUSED,
        constant("P98", multiple=STICK),
    ),
    Row(is_wrong("block", "border"), constant("P61")),
    Row(broken_at("P28"), constant("P28")),
    Row(halves("P06"), constant("P06")),
    Row(
        fills_no_stick,
        lambda _f, facts: PatternUse("P22", {"size": facts.inner, "padded": padded(facts.inner)}),
    ),
    Row(
        hands_on_no_stick,
        lambda _f, facts: PatternUse("P23", {"size": facts.width, "padded": padded(facts.width)}),
    ),
    Row(broken_at("P03"), constant("P03")),
    Row(reads_transposed, norm_names),
    Row(broken_at("P10"), rms_norm),
    Row(overflows_in_stream, constant("P13", factor=64.0)),
    Row(broken_at("P11"), constant("P11")),
    Row(rounds_too_often("P57"), constant("P57")),
    Row(rounds_too_often("P58"), constant("P58")),
    Row(makes_block_bias, constant("P48", placement="host")),
    Row(lambda f, facts: looks_for_infinities(f, facts) and inside("P66", f, facts), constant("P66")),
    Row(
        lambda f, facts: looks_for_infinities(f, facts) and not inside("P66", f, facts),
        constant("P56", dtype="bfloat16"),
    ),
    Row(broken_at("P49", BRANCHING), constant("P49")),
    Row(convolves, constant("P51")),
    Row(makes_alibi, constant("P50", placement="host")),
    Row(broken_at("P46", BRANCHING), lambda _f, facts: PatternUse("P46", {"language": facts.language})),
    Row(attends_wrongly("padding"), constant("P41")),
    Row(attends_wrongly("padding", "value", "size", "batch", "offset", "fused", "special"), constant("P42")),
    Row(attention_refused, constant("P42")),
    Row(repeats_keys, constant("P55")),
    Row(repeats_keys, constant("P42")),
)
