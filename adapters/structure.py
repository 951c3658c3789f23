"""Finds the parts of a model that patches act on: blocks, attention modules, embeddings, heads.

Everything is found by structure: class layout, attribute names, sizes. No model id and no model type is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import fx, nn
from transformers.pytorch_utils import Conv1D

from .digests import source_of
from .errors import StructureUnknown
from .rebinding import named_globals, own_function

HEAD_COUNT_ATTRIBUTES = ("num_attention_heads", "n_heads", "num_heads")
HEAD_SIZE_ATTRIBUTES = ("attention_head_size", "head_dim", "key_value_proj_dim", "head_size")
ALL_HEADS_ATTRIBUTES = ("all_head_size", "inner_dim")
SCALES = ("scaling", "scale")
POSITION_TABLES = ("position_embeddings", "position_embedding", "wpe")
CAUSAL_MAKERS = frozenset({"create_causal_mask", "create_sliding_window_causal_mask"})
BOTH_WAYS_MAKERS = frozenset({"create_bidirectional_mask", "create_bidirectional_sliding_window_mask"})
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
STICK = 64
"""Elements of two bytes that the device stores and computes together."""
HEAD_MODULES = ("pooler", "pooler_activation")


class ProjectionNames(NamedTuple):
    """Attribute names of q, k, v on the attention module, and paths where the output projection may be.

    A path that begins with `^` starts at the attention module's parent.
    """

    q: str
    k: str
    v: str
    outputs: tuple[str, ...]

    @property
    def label(self) -> str:
        """`query/key/value`: how a predicate names this row."""
        return f"{self.q}/{self.k}/{self.v}"


PROJECTIONS = (
    ProjectionNames("query", "key", "value", ("^output.dense", "dense")),
    ProjectionNames("q_lin", "k_lin", "v_lin", ("out_lin",)),
    ProjectionNames("q_proj", "k_proj", "v_proj", ("o_proj", "out_proj", "dense", "Wo")),
    ProjectionNames("q", "k", "v", ("o",)),
)


@dataclass(frozen=True)
class AttentionSite:
    """One attention module with its linears.

    `head_attribute` and `all_heads_attribute` are the attributes that its views use. `scale` is `attribute` when the
    module keeps its scale apart from the head size, `sqrt_head` when it divides by the square root of the head size.
    """

    path: str
    module: nn.Module
    owner: nn.Module
    names: ProjectionNames
    q: nn.Linear
    k: nn.Linear
    v: nn.Linear
    o: nn.Linear
    head_dim: int
    head_attribute: str
    all_heads_attribute: str | None
    scale: str

    @property
    def heads(self) -> int:
        """Number of query heads."""
        return self.q.out_features // self.head_dim

    @property
    def kv_heads(self) -> int:
        """Number of key and value heads."""
        return self.k.out_features // self.head_dim

    @property
    def causal(self) -> bool:
        """True if a row may only look back."""
        return bool(getattr(self.module, "is_causal", False))


@dataclass(frozen=True)
class Block:
    """One transformer block: the unit of compilation. A block that is called several times is listed once."""

    path: str
    module: nn.Module


def find_blocks(model: nn.Module) -> list[Block]:
    """The repeated layers of the model, in order, each once. Raises StructureUnknown if there are none.

    The heaviest `ModuleList` of one class wins; where its elements consist wholly of such a list themselves (ALBERT's
    groups), their elements are the blocks.
    """
    lists = [(path, m) for path, m in model.named_modules() if isinstance(m, nn.ModuleList) and _uniform(m)]
    if not lists:
        raise StructureUnknown(f"{type(model).__name__}: no list of repeated layers was found")
    path, chosen = max(lists, key=lambda item: _weight(item[1]))
    return _unfold(path, chosen)


def _unfold(path: str, layers: nn.ModuleList) -> list[Block]:
    blocks: list[Block] = []
    for name, layer in layers.named_children():
        inner = _only_list(layer)
        here = f"{path}.{name}"
        blocks += [Block(here, layer)] if inner is None else _unfold(f"{here}.{inner[0]}", inner[1])
    return blocks


def _only_list(layer: nn.Module) -> tuple[str, nn.ModuleList] | None:
    for name, child in layer.named_children():
        if isinstance(child, nn.ModuleList) and _uniform(child) and _weight(child) == _weight(layer):
            return name, child
    return None


def _uniform(layers: nn.ModuleList) -> bool:
    return len(layers) > 0 and len({type(layer) for layer in layers}) == 1


def _weight(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def find_attention(model: nn.Module) -> list[AttentionSite]:
    """Every attention module whose projections are separate linears of a known naming; each module once."""
    sites = (_site(model, path, module) for path, module in model.named_modules())
    return [site for site in sites if site is not None]


def _site(model: nn.Module, path: str, module: nn.Module) -> AttentionSite | None:
    for names in PROJECTIONS:
        qkv = [getattr(module, n, None) for n in names[:3]]
        if not all(isinstance(m, nn.Linear) for m in qkv):
            continue
        head_attribute = _first_attribute(module, HEAD_SIZE_ATTRIBUTES)
        found = _output_projection(model, path, module, names)
        if head_attribute is None or found is None:
            continue
        return AttentionSite(
            path=path,
            module=module,
            owner=found[0],
            names=names,
            q=qkv[0],
            k=qkv[1],
            v=qkv[2],
            o=found[1],
            head_dim=int(getattr(module, head_attribute)),
            head_attribute=head_attribute,
            all_heads_attribute=_first_attribute(module, ALL_HEADS_ATTRIBUTES),
            scale=_scale_of(module, head_attribute),
        )
    return None


def _first_attribute(module: nn.Module, names: tuple[str, ...]) -> str | None:
    return next((n for n in names if isinstance(getattr(module, n, None), int)), None)


def head_size_of(module: nn.Module) -> int | None:
    """The size of one head of an attention module, or None if it has no attribute for it."""
    name = _first_attribute(module, HEAD_SIZE_ATTRIBUTES)
    return None if name is None else int(getattr(module, name))


def _output_projection(
    model: nn.Module, path: str, module: nn.Module, names: ProjectionNames
) -> tuple[nn.Module, nn.Linear] | None:
    parent = model.get_submodule(path.rpartition(".")[0])
    for output in names.outputs:
        start = parent if output.startswith("^") else module
        linear = _descend(start, output.removeprefix("^"))
        if isinstance(linear, nn.Linear):
            return start, linear
    return None


def _descend(start: nn.Module, path: str) -> object:
    found: object = start
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def _scale_of(module: nn.Module, head_attribute: str) -> str:
    roots = (f"math.sqrt(self.{head_attribute})", f"self.{head_attribute}**-0.5")
    if not isinstance(module, fx.GraphModule) and any(root in source_of(own_function(module)) for root in roots):
        return "sqrt_head"
    return "attribute" if any(isinstance(getattr(module, name, None), float) for name in SCALES) else "unknown"


def embeddings_of(model: nn.Module) -> nn.Module:
    """The largest part that turns ids into vectors and holds no block. Raises StructureUnknown if there is none."""
    try:
        table = model.get_input_embeddings()  # type: ignore[operator]
    except (NotImplementedError, AttributeError) as error:
        raise StructureUnknown(f"{type(model).__name__} names no token table: {error}") from error
    blocks = {id(b.module) for b in find_blocks(model)}
    path = next((p for p, m in model.named_modules() if m is table), "")
    for part in _down_to(model, path):
        if not any(id(m) in blocks for m in part.modules()):
            return part
    raise StructureUnknown(f"{type(model).__name__}: the embeddings are no part beside the blocks")


def _down_to(model: nn.Module, path: str) -> list[nn.Module]:
    names = path.split(".") if path else []
    return [model.get_submodule(".".join(names[: n + 1])) for n in range(len(names))]


def encoder_of(model: nn.Module, blocks: list[Block]) -> nn.Module | None:
    """The largest part that holds the blocks and not the token table, or None when blocks hang beside the table."""
    table = model.get_input_embeddings()  # type: ignore[operator]
    parts = _down_to(model, blocks[0].path)
    part = next(p for p in parts if not any(m is table for m in p.modules()))
    return None if isinstance(part, nn.ModuleList) else part


def convolution_of(model: nn.Module) -> nn.Module | None:
    """The part with a convolution that the encoder runs beside its blocks (DeBERTa v2's widest), or None."""
    blocks = find_blocks(model)
    encoder, held = encoder_of(model, blocks), {id(b.module) for b in blocks}
    beside = [] if encoder is None else [c for c in encoder.children() if not any(id(m) in held for m in c.modules())]
    return next((part for part in beside if any(isinstance(m, CONVOLUTIONS) for m in part.modules())), None)


def part_sticks(model: nn.Module) -> list[int]:
    """The widths that the blocks' linears read and that are no whole sticks, each once, ascending."""
    linears = [m for b in find_blocks(model) for m in b.module.modules() if isinstance(m, nn.Linear | Conv1D)]
    widths = {m.in_features if isinstance(m, nn.Linear) else m.weight.shape[0] for m in linears}
    return sorted(width for width in widths if width % STICK)


def heads_of(model: nn.Module) -> list[nn.Module]:
    """What runs after the blocks and stays on the host: poolers, and what an encoder's parent holds behind it."""
    blocks = find_blocks(model)
    encoder = encoder_of(model, blocks)
    named = [m for p, m in model.named_modules() if p.rpartition(".")[2] in HEAD_MODULES]
    inside = {id(m) for b in blocks for m in b.module.modules()}
    found = [m for m in named if id(m) not in inside]
    for parent in model.modules():
        children = list(parent.children())
        place = next((n for n, child in enumerate(children) if child is encoder), None)
        if place is not None:
            found += [c for c in children[place + 1 :] if any(True for _ in c.parameters())]
    return list(dict.fromkeys(found))


def path_of(model: nn.Module, wanted: nn.Module) -> str:
    """The path of a module in the model; the module must be in it."""
    return next(path for path, module in model.named_modules() if module is wanted)


def counts_positions_by_id(model: nn.Module) -> bool:
    """True if positions are counted over ids that are not padding (the fairseq rule), not from 0 to L-1."""
    kind: Any = type(embeddings_of(model))
    return "create_position_ids_from_input_ids" in source_of(kind)


def pools_at_the_end(model: nn.Module) -> bool:
    """True if the model itself looks for the end token of each text and picks its vector."""
    source = source_of(own_function(model))
    return "eos_token_id" in source and ".argmax(" in source


def position_table(model: nn.Module) -> nn.Embedding | None:
    """The table of learned absolute positions, in the embeddings or beside them, or None."""
    embeddings = embeddings_of(model)
    beside = model.get_submodule(path_of(model, embeddings).rpartition(".")[0])
    found = (getattr(part, name, None) for part in (embeddings, beside) for name in POSITION_TABLES)
    return next((table for table in found if isinstance(table, nn.Embedding)), None)


def token_type_table(model: nn.Module) -> nn.Embedding | None:
    """The table of token types, or None."""
    table = getattr(embeddings_of(model), "token_type_embeddings", None)
    return table if isinstance(table, nn.Embedding) else None


def has_rotary(model: nn.Module) -> bool:
    """True if a module of the model rotates queries and keys by position."""
    return any("rotary" in name.rpartition(".")[2].lower() for name, _ in model.named_modules())


def is_causal(model: nn.Module) -> bool:
    """True if a token of the model sees none behind it.

    A module of it says so, or, where none does (text towers say it in the call only), it makes causal masks and no
    others, and its configuration does not turn them off.
    """
    if any(getattr(module, "is_causal", False) is True for module in model.modules()):
        return True
    config = getattr(model, "config", None)
    both_ways = getattr(config, "use_bidirectional_attention", None) in (True, "all")
    off = both_ways or getattr(config, "is_causal", None) is False
    return not off and any(_makes_causal_masks_only(module) for module in model.modules())


def _makes_causal_masks_only(module: nn.Module) -> bool:
    kind: Any = type(module)
    methods = named_globals(kind).values()
    return any(names & CAUSAL_MAKERS and not names & BOTH_WAYS_MAKERS for names in methods)
