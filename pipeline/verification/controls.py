"""Controls: outputs that are wrong on purpose. A model on which they are not noticed proves nothing.

Trivial ones are made from tensors alone. Semantic ones run the stock model on the CPU with one structural mistake, put
in by hooks and function modes that act on module classes, shapes and the softmax; the model is left as it was.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from pipeline.verification import measures
from pipeline.verification.gate import as_control, is_clearly_caught
from pipeline.verification.measurements import ControlResult
from pipeline.verification.parts import (
    MASKED_BELOW,
    SOFTMAX,
    Batch,
    eager_attention,
    find_layers,
    is_causal,
    is_linear,
    module_hooks,
    plain_ids,
    reference_run,
    rows,
    scores_of,
    stream_of,
    token_table,
    vocabulary_of,
)


class NotApplicableError(Exception):
    """The model or the batch has nothing that this control could break; the text says what is missing."""


class Subject(NamedTuple):
    """What a control works on: the stock model, its inputs, its reference output and the true mask."""

    model: Any
    batch: dict[str, Tensor]
    reference: Tensor
    mask: Tensor


def zeros(s: Subject) -> Tensor:
    """All zeros."""
    return torch.zeros_like(s.reference)


def constant(s: Subject) -> Tensor:
    """Every token is the mean token."""
    return s.reference[s.mask.bool()].mean(0).expand_as(s.reference)


def shuffled_rows(s: Subject) -> Tensor:
    """Every text gets its neighbour's output."""
    if len(s.reference) < 2:
        raise NotApplicableError("one text only")
    return s.reference.roll(1, 0)


def echo(s: Subject) -> Tensor:
    """What the first layer receives, returned as if it were the last hidden state."""
    layers = find_layers(s.model)
    if not layers:
        raise NotApplicableError("no list of layers")
    received = _received(s, layers[0])
    if received.shape != s.reference.shape:
        raise NotApplicableError(f"layers work on {tuple(received.shape)}, the output is {tuple(s.reference.shape)}")
    return received


class _Reached(Exception):
    """Ends a run at the layer that was waited for: what follows it is not looked at."""

    def __init__(self, stream: Tensor) -> None:
        super().__init__()
        self.stream = stream


def _received(s: Subject, layer: nn.Module) -> Tensor:
    def stop(_module: nn.Module, args: Any, kwargs: Any) -> None:
        raise _Reached(stream_of(args, kwargs).detach())

    with module_hooks([layer], stop):
        try:
            reference_run(s.model, s.batch)
        except _Reached as reached:
            return reached.stream
    raise NotApplicableError("the first layer is not called")


def other_input(s: Subject) -> Tensor:
    """The reference of other texts of the same lengths: token ids drawn anew."""
    ids = plain_ids(s.model.config, vocabulary_of(s.model))
    fresh = ids[torch.randint(len(ids), s.mask.shape, generator=torch.Generator().manual_seed(1))]
    changed = torch.where(s.mask.bool(), fresh, s.batch["input_ids"])
    return reference_run(s.model, {**s.batch, "input_ids": changed})


def mask_dropped(s: Subject) -> Tensor:
    """Padding takes part in attention."""
    if bool(s.mask.bool().all()):
        raise NotApplicableError("no padding in this batch")
    if bool(s.mask[:, 0].all()) and is_causal(s.model):
        raise NotApplicableError("causal with padding on the right: no real token sees a pad")
    return reference_run(s.model, {**s.batch, "attention_mask": torch.ones_like(s.mask)})


def uniform_attention(s: Subject) -> Tensor:
    """Every allowed key gets the same weight."""
    return _with_scores(s, lambda scores, width: torch.where(scores > MASKED_BELOW, 0.0, scores))


def scale_dropped(s: Subject) -> Tensor:
    """Scores without 1/sqrt(d): allowed scores times the root of what the score product sums over.

    Where the model has no such factor (T5) the scaled score stands in for it.
    """
    return _with_scores(s, lambda scores, width: torch.where(scores > MASKED_BELOW, scores * width**0.5, scores))


def _with_scores(s: Subject, change: Callable[[Tensor, int], Tensor]) -> Tensor:
    mode = _Scores(change)
    with mode:
        out = reference_run(s.model, s.batch)
    if not mode.changed:
        raise NotApplicableError("no softmax over scores")
    return out


_PRODUCTS: frozenset[Any] = frozenset({torch.matmul, torch.bmm, Tensor.matmul, Tensor.__matmul__, Tensor.bmm})
_ADDED_PRODUCTS: frozenset[Any] = frozenset({torch.baddbmm, Tensor.baddbmm})


class _Scores(TorchFunctionMode):
    """Changes scores before their softmax, knowing the width that the product before it summed over."""

    def __init__(self, change: Callable[[Tensor, int], Tensor]) -> None:
        super().__init__()
        self.change, self.changed, self.width = change, 0, 1

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Watches products, intercepts softmax."""
        kwargs = kwargs or {}
        if func in SOFTMAX and scores_of(args, kwargs).dim() == 4:
            self.changed += 1
            changed = self.change(scores_of(args, kwargs), self.width)
            return func(changed, *args[1:], **{k: v for k, v in kwargs.items() if k != "input"})
        if func in _PRODUCTS and len(args) > 1:
            self.width = args[0].shape[-1]
        elif func in _ADDED_PRODUCTS:
            self.width = (args[1] if len(args) > 1 else kwargs["batch1"]).shape[-1]
        return func(*args, **kwargs)


def positions_dropped(s: Subject) -> Tensor:
    """Position tables read as zero, rotations as identity, every position id 0."""
    tables, unread = _position_tables(s)
    rotation = _NoRotation()
    batch = dict(s.batch)
    if "position_ids" in inspect.signature(s.model.forward).parameters:
        batch["position_ids"] = torch.zeros_like(s.batch["input_ids"])
    with module_hooks(tables, after=lambda m, a, k, out: torch.zeros_like(out)), _zeroed(unread), rotation:
        out = reference_run(s.model, batch)
    if not tables and not unread and not rotation.calls and torch.allclose(out, s.reference, atol=1e-4):
        raise NotApplicableError("no position table, rotation or position ids found")
    return out


def _position_tables(s: Subject) -> tuple[list[nn.Module], list[nn.Module]]:
    """Tables looked up by ids that vary along the text and are not token ids; tables that are never looked up.

    A table that shares its weight with one that is looked up (T5) is looked up. The longest text alone shows it.
    """
    found: list[nn.Module] = []
    called: set[nn.Module] = set()
    tokens = token_table(s.model)

    def see(module: nn.Module, args: Any, kwargs: Any) -> None:
        called.add(module)
        ids = args[0] if args else kwargs["input"]
        if module is not tokens and _is_position(ids, text["input_ids"]) and module not in found:
            found.append(module)

    tables = [m for m in s.model.modules() if isinstance(m, nn.Embedding)]
    row = int(s.mask.sum(1).argmax())
    text = {name: tensor[row : row + 1] for name, tensor in s.batch.items()}
    with module_hooks(tables, see):
        reference_run(s.model, text)
    looked_up = called if tokens is None else {*called, tokens}
    read = {id(p) for m in looked_up for p in m.parameters()}
    return found, [m for m in tables if not any(id(p) in read for p in m.parameters())]


def _is_position(ids: Any, token_ids: Tensor) -> bool:
    """Ids that vary along the text and are not the token ids; a table asked by shape (RoFormer) is one of positions."""
    if not torch.is_tensor(ids):
        return True
    varies = ids.dim() > 0 and bool((ids != ids[..., :1]).any())
    return varies and not (ids.shape == token_ids.shape and bool((ids == token_ids).all()))


@contextmanager
def _zeroed(tables: list[nn.Module]) -> Iterator[None]:
    """Weights of tables that are read directly, as zeros for the time of the block."""
    saved = [(p, p.data) for m in tables for p in m.parameters()]
    for parameter, data in saved:
        parameter.data = torch.zeros_like(data)
    try:
        yield
    finally:
        for parameter, data in saved:
            parameter.data = data


_IDENTITY: dict[Any, Callable[[Tensor], Tensor]] = {
    torch.cos: torch.ones_like,
    Tensor.cos: torch.ones_like,
    torch.sin: torch.zeros_like,
    Tensor.sin: torch.zeros_like,
}


class _NoRotation(TorchFunctionMode):
    """cos is 1 and sin is 0: rotary tables made in the pass become the identity."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Intercepts cos and sin; everything else passes."""
        instead = _IDENTITY.get(func)
        if instead is not None:
            self.calls += 1
            return instead(args[0])
        return func(*args, **(kwargs or {}))


def glu_swapped(s: Subject) -> Tensor:
    """Gate and value of each gated feed-forward exchanged."""
    with ExitStack() as stack:
        found = [_swap(stack, m) for layer in find_layers(s.model) for m in layer.modules()]
        if not any(found):
            raise NotApplicableError("no gated feed-forward")
        return reference_run(s.model, s.batch)


def _swap(stack: ExitStack, parent: nn.Module) -> bool:
    """Puts the swap on a feed-forward: two equal linears and one back, or one of double width and one back."""
    linears = [m for m in parent.children() if is_linear(m)]
    shapes = [tuple(rows(m).shape) for m in linears]
    if len(linears) == 2 and shapes[0][0] == 2 * shapes[1][1] and shapes[0][1] == shapes[1][0]:
        half = shapes[1][1]
        stack.enter_context(module_hooks(linears[:1], after=lambda m, a, k, out: out.roll(half, -1)))
        return True
    if len(linears) == 3 and shapes[0] == shapes[1] == shapes[2][::-1] and shapes[0][0] != shapes[0][1]:
        for this, other in ((linears[0], linears[1]), (linears[1], linears[0])):
            stack.enter_context(module_hooks([this], after=_instead(other)))
        return True
    return False


def _instead(other: nn.Module) -> Callable[..., Any]:
    return lambda m, args, kwargs, out: other.forward(*args, **kwargs)


def layer_skipped(s: Subject) -> Tensor:
    """The middle layer call returns its input."""
    layers, calls = find_layers(s.model), [0]
    total = _count_calls(s, layers)
    if total < 2:
        raise NotApplicableError("fewer than two layers")

    def skip(module: nn.Module, args: Any, kwargs: Any, out: Any) -> Any:
        calls[0] += 1
        if calls[0] - 1 != total // 2:
            return None
        stream = stream_of(args, kwargs)
        return stream if torch.is_tensor(out) else (stream, *out[1:])

    with module_hooks(layers, after=skip):
        return reference_run(s.model, s.batch)


def _count_calls(s: Subject, layers: list[nn.Module]) -> int:
    seen: list[nn.Module] = []
    short = {k: v[:1] for k, v in s.batch.items()}
    with module_hooks(layers, lambda m, a, k: seen.append(m)):
        reference_run(s.model, short)
    return len(seen)


TRIVIAL: dict[str, Callable[[Subject], Tensor]] = {
    "zeros": zeros,
    "constant": constant,
    "echo": echo,
    "shuffled_rows": shuffled_rows,
    "other_input": other_input,
}
SEMANTIC: dict[str, Callable[[Subject], Tensor]] = {
    "uniform_attention": uniform_attention,
    "mask_dropped": mask_dropped,
    "scale_dropped": scale_dropped,
    "positions_dropped": positions_dropped,
    "glu_swapped": glu_swapped,
    "layer_skipped": layer_skipped,
}
WRONG_POOLING = "wrong_pooling"
FEW = 2


def run_controls(model: nn.Module, batch: Batch, reference: Tensor, pooling: str) -> list[ControlResult]:
    """Every control on one batch against the stock fp32 reference, (batch, length, width), judged by the gate.

    A control that cannot be applied is in the list with its reason, one that raised is `broken`. The model (eval, CPU)
    is unchanged afterwards.
    """
    subject = Subject(model, dict(batch), reference, batch["attention_mask"])
    with eager_attention(model):
        found = [_run_one(name, make, subject, pooling) for name, make in TRIVIAL.items()]
        found += [_on_few_first(name, make, subject, pooling) for name, make in SEMANTIC.items()]
    return [*found, _wrong_pooling(subject, pooling)]


def _on_few_first(name: str, make: Callable[[Subject], Tensor], s: Subject, pooling: str) -> ControlResult:
    """On the shortest and the longest text; on all of them only if that does not show the control clearly.

    A control is judged by its lowest token, and the lowest of all texts is at most the lowest of two.
    """
    few = _few(s)
    found = _run_one(name, make, few, pooling)
    if few is s or found.broken or not found.applicable or is_clearly_caught(found):
        return found
    return _run_one(name, make, s, pooling)


def _few(s: Subject) -> Subject:
    """The shortest and the longest text with their padding; all of them where there are no more than two."""
    if len(s.mask) <= FEW:
        return s
    order = s.mask.sum(1).argsort(stable=True)
    rows = torch.stack([order[0], order[-1]])
    batch = {name: tensor[rows] for name, tensor in s.batch.items()}
    return Subject(s.model, batch, s.reference[rows], s.mask[rows])


def _run_one(name: str, make: Callable[[Subject], Tensor], s: Subject, pooling: str) -> ControlResult:
    try:
        out = make(s)
    except NotApplicableError as reason:
        return ControlResult(name, False, detail=str(reason))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:  # not shown to be caught: the case is void
        return ControlResult(name, False, detail=f"{type(error).__name__}: {error}"[:300], broken=True)
    cosine = measures.lowest_token_cosine(out, s.reference, measures.pooled_tokens(s.mask, pooling))
    return as_control(name, cosine, _centred(out, s, pooling))


def _centred(out: Tensor, s: Subject, pooling: str) -> float | None:
    vectors = (measures.pool(x, s.mask, pooling) for x in (out, s.reference))
    return measures.lowest_centred_cosine(*vectors)


def _wrong_pooling(s: Subject, pooling: str) -> ControlResult:
    """Another pooling of the right tokens; judged on pooled vectors, mean-centred where there are enough texts."""
    if int(s.mask.sum(1).max()) < 2:
        return ControlResult(WRONG_POOLING, False, detail="texts of one token")
    wrong = measures.pool(s.reference, s.mask, measures.WRONG_POOLING[pooling])
    right = measures.pool(s.reference, s.mask, pooling)
    centred = measures.lowest_centred_cosine(wrong, right)
    return as_control(WRONG_POOLING, None, measures.lowest_cosine(wrong, right) if centred is None else centred)
