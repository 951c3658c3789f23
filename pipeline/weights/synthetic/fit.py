"""Steps 4 to 6 of the recipe: outlier channels, three corrected passes, the self-check. `calibrate` does it all."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from pipeline.verification.ideal import ideal_run
from pipeline.verification.measurements import EMBEDDING, HALF
from pipeline.verification.measures import lowest_token_cosine
from pipeline.verification.parts import (
    MASKED_BELOW,
    Batch,
    OnSoftmax,
    eager_attention,
    is_causal,
    is_linear,
    is_norm,
    module_hooks,
    reference_run,
    rms,
    rows,
    shortest_text,
    stream_of,
    vocabulary_of,
)
from pipeline.verification.policy import current_policy
from pipeline.weights.synthetic import recipe
from pipeline.weights.synthetic.draw import draw, stream_for
from pipeline.weights.synthetic.probe import check_batch
from pipeline.weights.synthetic.structure import Part, Structure, attention_module, find_query_key, find_structure


def calibrate(model: nn.Module, batch: Batch, seed: int = 0, depth: str = "full") -> recipe.CalibrationReport:
    """Fills `model` in place with weights of recipe `calibrated-1` and returns what was reached.

    The model becomes fp32 and eval. Attention runs eagerly meanwhile; implementation and `requires_grad` are restored.
    `batch` is padded (input_ids, attention_mask, each (batch, length) int64), on the left for causal models.
    Raises RecipeRefused where there is no softmax, no writer of the stream or no query and key.
    """
    model.eval().float()
    with eager_attention(model), torch.no_grad():
        offset = draw(model, batch, seed)
    return fit(model, batch, seed, offset, depth)


def fit(
    model: nn.Module, batch: Batch, seed: int, offset: frozenset[nn.Module], depth: str = "full"
) -> recipe.CalibrationReport:
    """Calibrates a model whose parameters were drawn; `offset` names the norms whose gain is 1 + weight."""
    with eager_attention(model), _differentiable(model):
        found = find_structure(model, shortest_text(batch))
        loud = _make_outliers(model, found, seed, offset)
        parts = find_query_key(model, shortest_text(batch), found.layers)
        branch, target = branch_size(found), score_target(found.calls)
        for _ in range(recipe.ROUNDS):
            seen = _Round(model, batch, found, offset, branch, loud).run()
            _scale_scores(seen.spreads, parts, target, offset)
        last = _Round(model, batch, found, offset, None, loud).run()
        causal = is_causal(model)
        cosine = rounding_check(model, seed, causal)
    return _report(found, parts, last, seed, causal, cosine, depth)


def _report(
    found: Structure,
    parts: dict[nn.Module, list[Part]],
    last: _Round,
    seed: int,
    causal: bool,
    cosine: float,
    depth: str,
) -> recipe.CalibrationReport:
    return recipe.CalibrationReport(
        seed=seed,
        post_norm=found.post_norm,
        causal=causal,
        calls=found.calls,
        width=found.width,
        branch=branch_size(found),
        score_target=score_target(found.calls),
        score_std=tuple(round(sum(s) / len(s), 3) for s in last.spreads.values()),
        query_key=tuple(type(p.module).__name__ for p in next(iter(parts.values()))),
        writers=len(found.writers),
        branch_norms=len(found.branch_norms),
        ideal_token_cosine=cosine,
        void=not cosine >= current_policy().limits(EMBEDDING, HALF)["ideal_token_cosine"],
        depth=depth,
    )


def rounding_check(model: Any, seed: int, causal: bool) -> float:
    """Lowest token cosine of an ideal DL16 run against fp32, on texts that the calibration has not seen."""
    batch = check_batch(model.config, vocabulary_of(model), seed, "left" if causal else "right")
    return lowest_token_cosine(ideal_run(model, batch), reference_run(model, batch), batch["attention_mask"])


def branch_size(found: Structure) -> float:
    """Target rms of a branch over rms of the layer's input (step 5b)."""
    if found.post_norm:
        return recipe.BRANCH_POST * min(1.0, recipe.DEEP / found.calls) ** 0.5
    return min(recipe.BRANCH_PRE_MAX, math.sqrt(recipe.GROWTH ** (1 / found.calls) - 1))


def score_target(calls: int) -> float:
    """Target std of attention scores (step 5c)."""
    return recipe.SCORE_STD if calls <= recipe.DEEP else recipe.SCORE_STD_DEEP


@contextmanager
def _differentiable(model: nn.Module) -> Iterator[None]:
    saved = [(p, p.requires_grad) for p in model.parameters()]
    model.requires_grad_(True)
    try:
        yield
    finally:
        for parameter, flag in saved:
            parameter.requires_grad_(flag)


def _weight(module: nn.Module) -> Tensor:
    weight: Any = module.weight
    data: Tensor = weight.data
    return data


def _scale_gain(norm: nn.Module, factor: float, channels: Tensor | slice, offset: frozenset[nn.Module]) -> None:
    """Multiplies a norm's effective gain, which is 1 + weight for `offset` norms."""
    one = float(norm in offset)
    weight = _weight(norm)
    weight[channels] = (weight[channels] + one) * factor - one


def _make_outliers(model: nn.Module, found: Structure, seed: int, offset: frozenset[nn.Module]) -> Tensor:
    """Step 4. Returns the boolean mask of loud channels, (width,)."""
    chosen = torch.randperm(found.width, generator=stream_for(seed, "outliers"))[: recipe.OUTLIERS]
    for writer in found.writers:
        norm = found.branch_norms.get(writer)
        if norm is None:
            rows(writer)[chosen] *= recipe.OUTLIER_GAIN
        else:
            _scale_gain(norm, recipe.OUTLIER_GAIN, chosen, offset)
    for norm in found.stream_norms(model):
        _scale_gain(norm, 1 / recipe.OUTLIER_GAIN, chosen, offset)
    loud = torch.zeros(found.width, dtype=torch.bool)
    loud[chosen] = True
    return loud


def _scale_scores(
    spreads: dict[nn.Module, list[float]],
    parts: dict[nn.Module, list[Part]],
    target: float,
    offset: frozenset[nn.Module],
) -> None:
    """Step 5c: query and key by the square root each of what the scores lack."""
    for owner, measured in spreads.items():
        factor = (target / max(sum(measured) / len(measured), 1e-6)) ** 0.5
        for part in parts[owner]:
            _scale_part(part, factor, offset)


def _scale_part(part: Part, factor: float, offset: frozenset[nn.Module]) -> None:
    bias: Any = getattr(part.module, "bias", None)
    if is_norm(part.module):
        _scale_gain(part.module, factor, slice(None), offset)
    else:
        rows(part.module)[part.rows] *= factor
    if bias is not None:
        bias.data[slice(None) if is_norm(part.module) else part.rows] *= factor


def score_spread(scores: Tensor) -> float:
    """Std of scores along a row over allowed keys, row mean removed, averaged over rows with more than two keys."""
    allowed = scores > MASKED_BELOW
    count = allowed.sum(-1, keepdim=True)
    kept = torch.where(allowed, scores, 0.0)
    mean = kept.sum(-1, keepdim=True) / count.clamp(min=1)
    variance = torch.where(allowed, scores - mean, 0.0).pow(2).sum(-1, keepdim=True) / (count - 1).clamp(min=1)
    return float(variance[count > 2].mean().sqrt())


class _Round:
    """One pass in which each writer is centred and sized in its hook, so that what follows sees it corrected.

    `branch` None only measures. Modules used more than once are corrected at their first use.
    """

    def __init__(
        self,
        model: nn.Module,
        batch: Batch,
        found: Structure,
        offset: frozenset[nn.Module],
        branch: float | None,
        loud: Tensor,
    ) -> None:
        self.model, self.batch, self.found, self.offset = model, batch, found, offset
        self.branch, self.quiet = branch, ~loud
        self.stack: list[nn.Module] = []
        self.spreads: dict[nn.Module, list[float]] = {}
        self.done: set[nn.Module] = set()
        self.stream = 0.0
        self.real = batch["attention_mask"].reshape(-1).bool()

    def run(self) -> _Round:
        """Runs the pass and returns itself with `spreads` filled."""
        layers = module_hooks(self.found.layers, self._enter_layer)
        modules = module_hooks(list(self.model.modules()), self._push, self._pop)
        with layers, modules, torch.no_grad(), OnSoftmax(self._see_scores):
            self.model(**self.batch)
        return self

    def _tokens(self, x: Tensor) -> Tensor:
        """Real tokens, (count, width); modules that see a subset of tokens keep theirs."""
        x = x.detach().reshape(-1, x.shape[-1])
        return x[self.real] if len(x) == len(self.real) else x

    def _size(self, x: Tensor) -> float:
        tokens = self._tokens(x)
        return rms(tokens[:, self.quiet] if tokens.shape[-1] == len(self.quiet) else tokens)

    def _enter_layer(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self.stream = self._size(stream_of(args, kwargs))

    def _push(self, module: nn.Module, *_: Any) -> None:
        self.stack.append(module)

    def _pop(self, module: nn.Module, args: Any, kwargs: Any, out: Any) -> Tensor | None:
        self.stack.pop()
        if self.branch is None or module in self.done or not torch.is_tensor(out):
            return None
        if module in self.found.writers:
            return self._correct_writer(module, stream_of(args, kwargs))
        if module in self.found.branch_norms.values():
            return self._resize(module, out)
        return None

    def _see_scores(self, scores: Tensor) -> None:
        owner = attention_module(self.stack)
        if owner is not None:
            self.spreads.setdefault(owner, []).append(score_spread(scores))

    def _correct_writer(self, module: nn.Module, x: Tensor) -> Tensor:
        self.done.add(module)
        out = self._centre(module, x)
        return out if module in self.found.branch_norms else self._resize(module, out)

    def _centre(self, module: nn.Module, x: Tensor) -> Tensor:
        """Step 5a: a rank-one change of the weight takes most of the output's mean over tokens away."""
        mean = self._tokens(x).mean(0)
        taken = (rows(module) @ mean) * recipe.CENTRE
        rows(module).sub_(torch.outer(taken, mean / mean.pow(2).sum().clamp(min=1e-12)))
        out: Tensor = module.forward(x)
        return out

    def _resize(self, module: nn.Module, out: Tensor) -> Tensor:
        """Step 5b: the branch gets its share of the stream."""
        self.done.add(module)
        assert self.branch is not None
        factor = self.branch * self.stream / max(self._size(out), 1e-9)
        everything = torch.ones(self.found.width if is_linear(module) else len(_weight(module)), dtype=torch.bool)
        _scale_part(Part(module, everything), factor, self.offset)
        return out * factor
