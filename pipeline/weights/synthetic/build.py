"""Builds a stock model from a config and gives it calibrated weights; cuts the depth of what is too big."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from pipeline.errors import CheckpointProblem
from pipeline.verification.parts import eager_attention, is_causal, token_table, vocabulary_of
from pipeline.weights.synthetic.draw import draw
from pipeline.weights.synthetic.fit import fit
from pipeline.weights.synthetic.probe import calibration_batch
from pipeline.weights.synthetic.recipe import RECIPE, CalibrationReport, RecipeRefused

# What a big random fill becomes: two values it could have drawn, so that rejection sampling ends and the tensor is not
# constant (constants are what the recipe leaves alone).
_RANDOM_FILLS: dict[Any, Callable[..., tuple[float, float]]] = {
    torch.ops.aten.normal_.default: lambda mean=0.0, std=1.0: (mean, mean + std),
    torch.ops.aten.uniform_.default: lambda low=0.0, high=1.0: ((low + high) / 2, (3 * low + high) / 4),
}
_BIG = 1 << 16


class Synthetic(NamedTuple):
    """A stock model, fp32, eval, on the CPU, with calibrated weights, and the recipe's report."""

    model: nn.Module
    report: CalibrationReport


class Truncated(NamedTuple):
    """A config of fewer layers and what to write beside its verdicts: "full" or "2 of 36"."""

    config: Any
    depth: str


class Cut(NamedTuple):
    """A config of fewer token ids and what to write beside its verdicts: "full" or "4096 of 250002"."""

    config: Any
    vocabulary: str


class _CheapFill(TorchDispatchMode):
    """Marks big random fills instead of drawing them: the recipe draws every value anew."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _RANDOM_FILLS and args[0].numel() >= _BIG:
            return _mark(args[0], *_RANDOM_FILLS[func](*args[1:]))
        return func(*args, **(kwargs or {}))


def _mark(x: Tensor, common: float, first: float) -> Tensor:
    x.fill_(common).flatten()[0] = first
    return x


def load_config(source: Any) -> Any:
    """The stock config of a folder with config.json, of a dictionary, or the config itself (copied).

    Of a model with parts for images or sound it is that of the part that reads text (`adapters.towers`).
    Raises CheckpointProblem `unknown_architecture` or `malformed`. Remote code is never used.
    """
    from adapters.towers import text_part

    config = load_whole_config(source)
    try:
        return text_part(config)
    except (ValueError, KeyError) as error:
        raise CheckpointProblem("unknown_architecture", f"no stock model for the config: {_line(error)}") from error
    except (RuntimeError, TypeError, AttributeError) as error:
        raise CheckpointProblem("malformed", f"the config builds no model: {_line(error)}") from error


def load_whole_config(source: Any) -> Any:
    """The config with those of all its parts, in the words of the stock class (`adapters.remap`).

    Raises as `load_config` does.
    """
    from transformers import AutoConfig, PreTrainedConfig

    from adapters.errors import NotRemapped
    from adapters.remap import remapped

    if isinstance(source, PreTrainedConfig):
        return copy.deepcopy(source)
    try:
        given = source if isinstance(source, dict) else fields_of(Path(source))
        fields = remapped(given) or (given if isinstance(source, dict) else None)
        if fields is not None:
            return AutoConfig.for_model(fields["model_type"], **{k: v for k, v in fields.items() if k != "model_type"})
        return AutoConfig.from_pretrained(Path(source), local_files_only=True, trust_remote_code=False)
    except NotRemapped as error:
        raise CheckpointProblem("remote_code", f"{error}") from error
    except (KeyError, ValueError) as error:
        raise CheckpointProblem("unknown_architecture", f"transformers knows no such config: {_line(error)}") from error
    except (OSError, TypeError) as error:
        raise CheckpointProblem("malformed", f"config of {source!s} cannot be read: {_line(error)}") from error


def fields_of(folder: Path) -> dict[str, Any]:
    """The content of config.json; empty where it cannot be read, which transformers then says better."""
    try:
        fields = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return fields if isinstance(fields, dict) else {}


def build_stock(config: Any, architecture: str | None = None) -> nn.Module:
    """The stock model of a config, fp32, eval, CPU, big random fills skipped.

    `architecture` names a transformers class; without it AutoModel decides, and encoder-decoders that have a text
    encoder class give that. Raises CheckpointProblem `unknown_architecture` or `malformed`.
    """
    config = copy.deepcopy(config)
    if hasattr(config, "use_cache"):
        config.use_cache = False
    try:
        with _CheapFill():
            model = _construct(config, architecture)
    except (ValueError, KeyError) as error:
        raise CheckpointProblem("unknown_architecture", f"no stock model for the config: {_line(error)}") from error
    except (RuntimeError, TypeError, AttributeError) as error:
        raise CheckpointProblem("malformed", f"the config builds no model: {_line(error)}") from error
    return model.eval()


def _construct(config: Any, architecture: str | None) -> nn.Module:
    import transformers

    from adapters.towers import build

    if architecture is not None:
        found = getattr(transformers, architecture, None)
        if not (isinstance(found, type) and issubclass(found, transformers.PreTrainedModel)):
            raise ValueError(f"transformers has no model class {architecture!r}")
        named: Any = found
        return named._from_config(config, dtype=torch.float32)
    return build(config, dtype=torch.float32)


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def synthesise(
    source: Any,
    seed: int = 0,
    layers: int | None = None,
    architecture: str | None = None,
    vocabulary: int | None = None,
) -> Synthetic:
    """A stock model with weights of recipe `calibrated-1`, from a config, a dictionary or a folder.

    `layers` cuts the depth (see `truncated_config`), `vocabulary` the token table (see `cut_vocabulary`),
    `architecture` names the class (see `build_stock`). Raises CheckpointProblem or RecipeRefused.
    """
    config, depth = truncated_config(load_config(source), layers)
    config, rows = cut_vocabulary(config, vocabulary)
    model = build_stock(config, architecture)
    if token_table(model) is None:
        raise RecipeRefused(f"recipe {RECIPE} needs a token table, {type(model).__name__} names none")
    batch = calibration_batch(config, vocabulary_of(model), seed)
    with eager_attention(model), torch.no_grad():
        offset = draw(model, batch, seed)
        if is_causal(model):
            batch = calibration_batch(config, vocabulary_of(model), seed, side="left")
    return Synthetic(model, replace(fit(model, batch, seed, offset, depth), vocabulary=rows))


def truncated_config(config: Any, layers: int | None) -> Truncated:
    """A copy with at most `layers` layers, but never less than one full period of its layer kinds.

    None keeps the depth. Fields that list one value per layer are cut alike.
    """
    full = getattr(config, "num_hidden_layers", None)
    if layers is None or not full or layers >= full:
        return Truncated(copy.deepcopy(config), "full")
    keep = max(layers, layer_period(config))
    if keep >= full:
        return Truncated(copy.deepcopy(config), "full")
    fields = {k: v[:keep] if isinstance(v, list) and len(v) == full else v for k, v in config.to_dict().items()}
    depth_field = getattr(config, "attribute_map", {}).get("num_hidden_layers", "num_hidden_layers")
    return Truncated(type(config).from_dict({**fields, depth_field: keep}), f"{keep} of {full}")


def cut_vocabulary(config: Any, rows: int | None) -> Cut:
    """A copy with at most `rows` token ids; special ones beyond get the last ids, each its own.

    For models without a tokenizer, whose texts are random ids: to draw a table of a quarter of a million rows costs
    more than all that is done with the few that are read. None keeps the table.
    """
    full = getattr(config, "vocab_size", None)
    if rows is None or not full or rows >= full:
        return Cut(config, "full")
    fields = config.to_dict()
    special = {x for k, v in fields.items() if k.endswith(_SPECIAL) for x in (v if isinstance(v, list) else [v])}
    beyond = sorted(x for x in special if isinstance(x, int) and x >= rows)
    moved = {old: rows - 1 - place for place, old in enumerate(beyond)}

    def inside(value: Any) -> Any:
        return [moved.get(x, x) for x in value] if isinstance(value, list) else moved.get(value, value)

    changed = {k: inside(v) for k, v in fields.items() if k.endswith(_SPECIAL)}
    size_field = getattr(config, "attribute_map", {}).get("vocab_size", "vocab_size")
    return Cut(type(config).from_dict({**fields, **changed, size_field: rows}), f"{rows} of {full}")


_SPECIAL = ("_token_id", "_index")
_PERIOD_FIELDS = (
    "global_attn_every_n_layers",
    "sliding_window_pattern",
    "full_attention_interval",
    "decoder_sparse_step",
)


def layer_period(config: Any) -> int:
    """Layers that hold every layer kind once, at least 1."""
    kinds = getattr(config, "layer_types", None) or getattr(config, "attention_layers", None)
    if kinds:
        return _period(kinds)
    steps = [getattr(config, f, None) for f in _PERIOD_FIELDS]
    return max([1, *(s for s in steps if isinstance(s, int))])


def _period(kinds: Sequence[str]) -> int:
    for length in range(1, len(kinds)):
        if set(kinds[:length]) == set(kinds) and all(k == kinds[i % length] for i, k in enumerate(kinds)):
            return length
    return next(n for n in range(1, len(kinds) + 1) if set(kinds[:n]) == set(kinds))
