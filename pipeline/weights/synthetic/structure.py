"""Steps 2 and 3 of the recipe: which modules write to the residual stream, and which make queries and keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pipeline.verification.parts import (
    MASKED_BELOW,
    Batch,
    OnSoftmax,
    find_layers,
    is_linear,
    is_norm,
    module_hooks,
    stream_of,
)
from pipeline.weights.synthetic.recipe import RECIPE, RecipeRefused

SOFTMAX_EVENT = "softmax"


class Event(NamedTuple):
    """One thing that happened inside a layer call. `output` is kept so that its storage is not used again."""

    kind: str
    module: nn.Module | None
    source: int
    output: Tensor | None


class Part(NamedTuple):
    """The rows of a linear, or all of a norm, that make queries or keys."""

    module: nn.Module
    rows: Tensor


@dataclass
class Structure:
    """Writers of the stream, norms applied to a branch, the width of the stream and the number of layer calls."""

    layers: list[nn.Module]
    width: int
    calls: int = 0
    writers: list[nn.Module] = field(default_factory=list)
    branch_norms: dict[nn.Module, nn.Module] = field(default_factory=dict)
    post_norm: bool = False

    def stream_norms(self, model: nn.Module) -> list[nn.Module]:
        """Norms that read the stream: of its width and not applied to a branch."""
        branch = set(self.branch_norms.values())
        return [m for m in model.modules() if is_norm(m) and m not in branch and len(_gain(m)) == self.width]


def _gain(module: nn.Module) -> Tensor:
    weight: Any = module.weight
    gain: Tensor = weight
    return gain


class _Recorder:
    """Events of every layer call, in order."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        self.layers = set(layers)
        self.calls: list[list[Event]] = []
        self.inside = False
        self.width = 0

    def before(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self.calls.append([])
        self.inside, self.width = True, stream_of(args, kwargs).shape[-1]

    def leave(self, *_: Any) -> None:
        self.inside = False

    def after(self, module: nn.Module, args: Any, kwargs: Any, out: Any) -> None:
        if self.inside and torch.is_tensor(out) and out.numel():
            kind = "norm" if is_norm(module) else "linear"
            self.calls[-1].append(Event(kind, module, stream_of(args, kwargs).data_ptr(), out))

    def softmax(self, scores: Tensor) -> None:
        if self.inside:
            self.calls[-1].append(Event(SOFTMAX_EVENT, None, 0, None))


def find_structure(model: nn.Module, batch: Batch) -> Structure:
    """Step 2, by one pass with hooks. Raises RecipeRefused without layers, without softmax or without writers."""
    layers = find_layers(model)
    if not layers:
        raise RecipeRefused(f"recipe {RECIPE} finds no list of layers in {type(model).__name__}")
    seen = _Recorder(layers)
    affine = [m for m in model.modules() if is_linear(m) or is_norm(m)]
    hooks = (module_hooks(layers, seen.before, seen.leave), module_hooks(affine, after=seen.after))
    with hooks[0], hooks[1], torch.no_grad(), OnSoftmax(seen.softmax):
        model(**batch)
    found = Structure(layers, seen.width, len(seen.calls))
    for events in seen.calls:
        _read_call(events, found)
    return found


def _read_call(events: list[Event], found: Structure) -> None:
    """The first stream-wide linear after the softmax writes the attention branch, the last one the feed-forward's."""
    softmax = next((i for i, e in enumerate(events) if e.kind == SOFTMAX_EVENT), None)
    if softmax is None:
        raise RecipeRefused(f"recipe {RECIPE} does not fit a layer without a softmax over scores")
    after = [i for i, e in enumerate(events) if i > softmax and _is_wide(e, found.width)]
    if not after:
        raise RecipeRefused(f"recipe {RECIPE} finds no linear that writes to the residual stream")
    for i in sorted({after[0], after[-1]}):
        _add_writer(events, i, found)
    last = events[-1]
    found.post_norm |= last.kind == "norm" and last.module not in found.branch_norms.values()


def _is_wide(event: Event, width: int) -> bool:
    return event.kind == "linear" and event.output is not None and event.output.shape[-1] == width


def _add_writer(events: list[Event], index: int, found: Structure) -> None:
    writer, output = events[index].module, events[index].output
    assert writer is not None
    assert output is not None
    if writer not in found.writers:
        found.writers.append(writer)
    following = events[index + 1] if index + 1 < len(events) else None
    if following is not None and following.kind == "norm" and following.source == output.data_ptr():
        assert following.module is not None
        found.branch_norms[writer] = following.module


class _Gradients:
    """Keeps the affine outputs of the current layer call and differentiates the scores by them."""

    def __init__(self) -> None:
        self.stack: list[nn.Module] = []
        self.affine: list[tuple[nn.Module, Tensor]] = []
        self.found: dict[nn.Module, list[Part]] = {}

    def enter_layer(self, *_: Any) -> None:
        self.affine = []

    def before(self, module: nn.Module, *_: Any) -> None:
        self.stack.append(module)

    def after(self, module: nn.Module, args: Any, kwargs: Any, out: Any) -> None:
        self.stack.pop()
        if (is_linear(module) or is_norm(module)) and torch.is_tensor(out) and out.requires_grad:
            self.affine.append((module, out))

    def softmax(self, scores: Tensor) -> None:
        owner = attention_module(self.stack)
        if owner is None or owner in self.found or not self.affine or not scores.requires_grad:
            return
        modules, outputs = zip(*self.affine, strict=True)
        energy = scores.masked_fill(scores < MASKED_BELOW, 0).pow(2).sum()
        grads = torch.autograd.grad(energy, outputs, allow_unused=True, retain_graph=True)
        hit = [Part(m, _nonzero(g)) for m, g in zip(modules, grads, strict=True) if g is not None]
        self.found[owner] = _query_key_parts(hit, set(owner.modules()))


def _nonzero(gradient: Tensor) -> Tensor:
    return gradient.reshape(-1, gradient.shape[-1]).abs().sum(0) > 0


def attention_module(stack: Sequence[nn.Module]) -> nn.Module | None:
    """The innermost running module that holds linears: the one a softmax belongs to."""
    return next((m for m in reversed(stack) if any(is_linear(x) for x in m.modules())), None)


def _query_key_parts(hit: list[Part], inside: set[nn.Module]) -> list[Part]:
    """Two norms on the way (query and key norm) hide the linears before them; else the linears. Uses are merged."""
    norms = [p for p in hit if is_norm(p.module) and p.module in inside]
    linears = [p for p in hit if is_linear(p.module) and p.module in inside]
    merged: dict[nn.Module, Tensor] = {}
    for part in norms if len(norms) >= 2 else linears:
        merged[part.module] = merged.get(part.module, torch.zeros_like(part.rows)) | part.rows
    return [Part(module, rows) for module, rows in merged.items()]


def find_query_key(model: nn.Module, batch: Batch, layers: Sequence[nn.Module]) -> dict[nn.Module, list[Part]]:
    """Step 3, per attention module, by the gradient of its scores. Raises RecipeRefused where there is none."""
    seen = _Gradients()
    hooks = (module_hooks(list(layers), seen.enter_layer), module_hooks(list(model.modules()), seen.before, seen.after))
    with hooks[0], hooks[1], torch.enable_grad(), OnSoftmax(seen.softmax):
        model(**batch)
    if not seen.found or not all(seen.found.values()):
        raise RecipeRefused(f"recipe {RECIPE} finds no query and key behind the scores of {type(model).__name__}")
    return seen.found
