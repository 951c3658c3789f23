"""P13: the stream of residuals divided by a power of two, so that models that overflow fp16 fit in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import nn

from ..errors import PatchDoesNotApply, PatchParameters
from ..reversal import Reversal
from ..structure import embeddings_of, find_attention, find_blocks
from .base import PHASE_COMPLETE, HostCall, Patch, PatchContext, Target, Undo, types_of
from .norms import is_rms_norm
from .padding import FEED_FORWARDS
from .rotary_heads import adds_one, epsilon_of

SANDWICH = ("pre_feedforward_layernorm", ("post_attention_layernorm", "post_feedforward_layernorm"))
"""A block with the first norm adds what the others give; elsewhere it adds what its last linears give."""
BEFORE = ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "layer_norm", "ln_1", "ln_2")
"""Norms of a block that read the stream, by name."""
LAST = ("norm", "final_layer_norm", "ln_f", "final_layernorm")
"""Norms behind the blocks."""


class Stream(NamedTuple):
    """What writes into the stream (linears, or norms behind them) and the norms that read it."""

    writers: list[nn.Module]
    readers: list[nn.Module]


@dataclass(frozen=True)
class ScaledResiduals(Patch):
    """Divides what is written into the stream by `factor`, a power of two, and the readers' epsilon by its square.

    A norm of x/c with eps/c^2 is that of x with eps, so that all values inside the sublayers stay as they are. What
    overflows inside a sublayer is not cured.
    """

    pattern: ClassVar[str] = "P13"
    mathematics: ClassVar[str] = "x/c / sqrt(mean((x/c)^2) + eps/c^2) = x / sqrt(mean(x^2) + eps): c cancels in norms"

    factor: float = 64.0

    def match(self, model: nn.Module) -> list[Target]:
        """The norms that read the stream. Raises PatchDoesNotApply unless every reader of it is a norm."""
        if self.factor < 1 or torch.frexp(torch.tensor(self.factor)).mantissa != 0.5:
            raise PatchParameters(f"P13: factor {self.factor!r} is not a power of two")
        wanted = {id(m) for m in stream_of(model).readers}
        return [Target(p, m) for p, m in model.named_modules() if id(m) in wanted]

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Replaces Parameters and epsilons; embeddings are divided where they come out."""
        undo, stream = Reversal(), stream_of(model)
        for writer in stream.writers:
            self._divide(writer, undo)
        for reader in stream.readers:
            name = _epsilon_name(reader)
            undo.set_attribute(reader, name, getattr(reader, name) / self.factor**2)
        for table in _tables(model):
            undo.hook(table.register_forward_hook(lambda module, args, output: output * (1.0 / self.factor)))
        undo.add(context.add_stage(PHASE_COMPLETE, _only_tokens))
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The classes of the norms, the blocks and the embeddings."""
        blocks = {type(b.module) for b in find_blocks(model)}
        return [*types_of(self.match(model)), *blocks, type(embeddings_of(model)), type(model)]

    def _divide(self, writer: nn.Module, undo: Reversal) -> None:
        """A gain that is used as 1 + w becomes (1 + w)/c - 1; every other Parameter is divided."""
        one = 1.0 if is_rms_norm(writer) and adds_one(writer) else 0.0
        for name, value in list(writer._parameters.items()):
            if value is not None:
                divided = (value.detach() + one) / self.factor - one
                undo.set_parameter(writer, name, nn.Parameter(divided, requires_grad=False))


def _only_tokens(inputs: dict[str, Any], call: HostCall) -> dict[str, Any]:
    """Raises PatchDoesNotApply for vectors in place of tokens: they may be divided already, or not."""
    if inputs.get("input_ids") is None:
        raise PatchDoesNotApply("P13: the call gives vectors in place of tokens; give input_ids")
    return inputs


def stream_of(model: nn.Module) -> Stream:
    """The writers and readers of the stream of residuals. Raises PatchDoesNotApply where they are not all known."""
    blocks = [block.module for block in find_blocks(model)]
    outputs = {id(site.o): site.o for site in find_attention(model)}
    writers, readers = list[nn.Module](), list[nn.Module]()
    for block in blocks:
        own = [m for m in block.modules() if id(m) in outputs] + _downs(block)
        children = {p.rpartition(".")[2]: m for p, m in block.named_modules()}
        behind = SANDWICH[1] if SANDWICH[0] in children else ()
        before = [m for p, m in block.named_modules() if p.rpartition(".")[2] in BEFORE and _is_norm(m)]
        written = [children[name] for name in behind]
        reads = [m for m in before if not any(m is w for w in written)]
        if len(own) != 2 or len(reads) != 2:
            raise PatchDoesNotApply("P13: the blocks are not two sublayers with a norm before each")
        writers += written or own
        readers += reads
    last = [m for p, m in model.named_modules() if p.rpartition(".")[2] in LAST and _is_norm(m)]
    last = [m for m in last if not any(m is inner for b in blocks for inner in b.modules())]
    if len(last) != 1:
        raise PatchDoesNotApply("P13: no norm behind the blocks would take the factor out")
    return Stream(writers, [*readers, *last])


def _downs(block: nn.Module) -> list[nn.Module]:
    """The linears of feed-forward parts that write into the stream."""
    found: dict[int, nn.Module] = {}
    for module in block.modules():
        for row in FEED_FORWARDS:
            parts = [module._modules.get(name) for name in (*row.up, row.down)]
            if all(isinstance(part, nn.Linear) for part in parts):
                found[id(parts[-1])] = parts[-1]  # type: ignore[assignment]
    return list(found.values())


def _is_norm(module: nn.Module) -> bool:
    return type(module) is nn.LayerNorm or is_rms_norm(module)


def _epsilon_name(norm: nn.Module) -> str:
    return "eps" if isinstance(norm, nn.LayerNorm) else epsilon_of(norm)


def _tables(model: nn.Module) -> list[nn.Module]:
    """The embeddings, and tables that stand in for them because they share the weight."""
    embeddings = embeddings_of(model)
    shared = {id(p) for p in embeddings.parameters()}
    inside = {id(m) for m in embeddings.modules()}
    twins = [
        m for m in model.modules() if isinstance(m, nn.Embedding) and id(m.weight) in shared and id(m) not in inside
    ]
    return [embeddings, *twins]
