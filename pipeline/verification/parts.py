"""What a transformer is made of, found by module class, shape and observation. Leaf module; knows no model type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

SOFTMAX: frozenset[Any] = frozenset({torch.softmax, torch.nn.functional.softmax, Tensor.softmax})
MASKED_BELOW = -1e4  # scores at or below this belong to keys that are not allowed
Batch = Mapping[str, Tensor]


def is_norm(module: nn.Module) -> bool:
    """True for LayerNorm, RMSNorm and their relatives with a one-dimensional gain."""
    weight = getattr(module, "weight", None)
    return "Norm" in type(module).__name__ and isinstance(weight, nn.Parameter) and weight.dim() == 1


def is_linear(module: nn.Module) -> bool:
    """True for `nn.Linear` and for the transposed linear that transformers calls Conv1D."""
    if isinstance(module, nn.Linear):
        return True
    weight = getattr(module, "weight", None)
    return type(module).__name__ == "Conv1D" and isinstance(weight, Tensor) and weight.dim() == 2


def rows(module: nn.Module) -> Tensor:
    """The weight of a linear as (out, in): a view whose writes reach the module."""
    weight: Any = module.weight
    data: Tensor = weight.data
    return data if isinstance(module, nn.Linear) else data.t()


def rms(x: Tensor) -> float:
    """Root mean square over all elements, in fp32."""
    return float(x.detach().float().pow(2).mean().sqrt())


def find_layers(model: nn.Module) -> list[nn.Module]:
    """The transformer layers: the module list with most parameters whose members hold three linears. Else empty."""
    lists: list[nn.ModuleList] = [
        m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) and _holds_linears(m[0])
    ]
    if not lists:
        return []
    return list(max(lists, key=_bulk))


def _bulk(modules: nn.ModuleList) -> tuple[int, int]:
    return sum(p.numel() for p in modules.parameters()), len(modules)


def _holds_linears(module: nn.Module) -> bool:
    return sum(is_linear(m) for m in module.modules()) >= 3


def stream_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
    """The residual stream a layer receives: its first argument, or `hidden_states`."""
    return args[0] if args else kwargs["hidden_states"]


def hidden_of(output: Any) -> Tensor:
    """The last hidden state in what a stock model returns, (batch, length, width)."""
    return output.last_hidden_state if hasattr(output, "last_hidden_state") else output[0]


def reference_run(model: nn.Module, batch: Batch) -> Tensor:
    """Last hidden state of one inference pass, (batch, length, width), in the model's dtype.

    A model that returns only pooled vectors (DPR) is asked for its hidden states. Raises ValueError if it has none.
    """
    with torch.no_grad():
        found = hidden_of(model(**batch))
        if found.dim() == 3:
            return found
        states = getattr(model(**batch, output_hidden_states=True), "hidden_states", None)
    if not states:
        raise ValueError(f"{type(model).__name__} returns no hidden states of tokens")
    last: Tensor = states[-1]
    return last


def shortest_text(batch: Batch) -> dict[str, Tensor]:
    """The shortest text of a batch alone and without padding, (1, n): enough to see what a model is made of."""
    row = int(batch["attention_mask"].sum(1).argmin())
    keep = batch["attention_mask"][row].bool()
    return {name: tensor[row : row + 1, keep] for name, tensor in batch.items()}


def plain_ids(config: object, vocabulary: int) -> Tensor:
    """All token ids that are not special, (n,) int64; the first few, often special too, are left out of big tables.

    Special are ids the config names (pad, eos, mask, ...): they can switch on behaviour that random texts must avoid.
    """
    named = [v for k, v in vars(config).items() if k.endswith("_token_id")]
    flat = [x for v in named for x in (v if isinstance(v, list) else [v])]
    special = torch.tensor(sorted({x for x in flat if isinstance(x, int)}), dtype=torch.int64)
    ids = torch.arange(min(5, vocabulary // 10), vocabulary)
    return ids[~torch.isin(ids, special)]


def pad_id(config: object) -> int:
    """The padding id, 0 where the config names none."""
    found = getattr(config, "pad_token_id", None)
    return found if isinstance(found, int) and found >= 0 else 0


def vocabulary_of(model: Any) -> int:
    """Rows of the token table. Raises ValueError if the model has none."""
    table = token_table(model)
    if table is None:
        raise ValueError(f"{type(model).__name__} has no token table")
    return table.num_embeddings


def token_table(model: Any) -> nn.Embedding | None:
    """The table that token ids are looked up in, None where the model names none."""
    try:
        table = model.get_input_embeddings()
    except (NotImplementedError, AttributeError):
        return None
    return table if isinstance(table, nn.Embedding) else None


def is_causal(model: Any) -> bool:
    """True if changing the last of 8 tokens leaves the seven before it as they were. Two short texts are run."""
    ids = plain_ids(model.config, vocabulary_of(model))[:9]
    if len(ids) < 2:
        return False
    text = ids[torch.arange(8) % len(ids)]
    other = text.clone()
    other[-1] = ids[0] if ids[0] != text[-1] else ids[1]
    both = torch.stack([text, other])
    out = reference_run(model, {"input_ids": both, "attention_mask": torch.ones_like(both)})
    return bool(torch.allclose(out[0, :-1], out[1, :-1], rtol=1e-5, atol=1e-6))


def counts_padding(model: Any) -> bool:
    """True if tokens come out otherwise behind padding: positions are counted over it (CLIP, GPT-2).

    Of such a model a text padded on the left is another text. Eight tokens are run, alone and behind four of padding.
    """
    ids = plain_ids(model.config, vocabulary_of(model))[:8]
    if len(ids) == 0:
        return False
    text = ids[torch.arange(8) % len(ids)][None]
    padded = torch.cat([torch.full((1, 4), pad_id(model.config)), text], dim=1)
    mask = torch.ones_like(padded)
    mask[:, :4] = 0
    alone = reference_run(model, {"input_ids": text, "attention_mask": torch.ones_like(text)})
    behind = reference_run(model, {"input_ids": padded, "attention_mask": mask})
    return not bool(torch.allclose(alone, behind[:, 4:], rtol=1e-3, atol=1e-4))


def scores_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
    """The input of a softmax call."""
    return args[0] if args else kwargs["input"]


class OnSoftmax(TorchFunctionMode):
    """Gives every 4-D input of a softmax to `see`; what `see` returns (if not None) goes into the softmax instead."""

    def __init__(self, see: Callable[[Tensor], Tensor | None]) -> None:
        super().__init__()
        self.see = see

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Intercepts softmax; everything else passes."""
        kwargs = kwargs or {}
        if func in SOFTMAX and scores_of(args, kwargs).dim() == 4:
            scores = scores_of(args, kwargs)
            changed = self.see(scores)
            rest = {k: v for k, v in kwargs.items() if k != "input"}
            return func(scores if changed is None else changed, *args[1:], **rest)
        return func(*args, **kwargs)


@contextmanager
def module_hooks(
    modules: list[nn.Module], before: Callable[..., Any] | None = None, after: Callable[..., Any] | None = None
) -> Iterator[None]:
    """Forward hooks (with keyword arguments) on `modules` for the time of the block."""
    handles: list[Any] = []
    for module in modules:
        if before is not None:
            handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        if after is not None:
            handles.append(module.register_forward_hook(after, with_kwargs=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def eager_attention(model: nn.Module) -> Iterator[None]:
    """Runs `model` with eager attention, so that scores meet a visible softmax; restores the implementation after."""
    configs = list({id(c): c for c in _attention_configs(model)}.values())
    saved = [c._attn_implementation for c in configs]
    switch = getattr(model, "set_attn_implementation", None)
    if switch is not None and any(value not in (None, "eager") for value in saved):
        switch("eager")
    try:
        yield
    finally:
        for config, value in zip(configs, saved, strict=True):
            config._attn_implementation = value


def _attention_configs(model: nn.Module) -> Iterator[Any]:
    for module in model.modules():
        config = getattr(module, "config", None)
        if hasattr(config, "_attn_implementation"):
            yield config
