"""The sentence-transformers module chain of a checkpoint: pooling, Dense layers, normalisation, length limit.

Read from `modules.json`, each module's `config.json` and `sentence_bert_config.json`. A checkpoint without
`modules.json` gets what sentence-transformers gives it: mean pooling and no normalisation, marked `declared = False`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

ReadJson = Callable[[str], Any]
"""Reads a JSON file of the checkpoint by name; None if it is not there."""

OWN_PACKAGES = ("sentence_transformers.", "pylate.")
"""Packages whose module classes are installed code; a class path elsewhere would have to come from the repository."""

_LEGACY_POOLING = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_STATIC = frozenset({"StaticEmbedding", "WordEmbeddings", "BoW"})
_UNBOUNDED = 1_000_000
"""Tokenizers that know no limit store a huge number."""


class ChainError(ValueError):
    """A module file does not say what it must; the message is one clause without the model's name."""


@dataclass(frozen=True)
class DenseSpec:
    """One Dense module: y = activation(W x + b), W of `out_features` x `in_features`. `path` is its folder."""

    path: str
    in_features: int
    out_features: int
    bias: bool
    activation: str


@dataclass(frozen=True)
class Chain:
    """What happens to token embeddings. `pooling` lists modes that are concatenated, `modules` class names in order.

    `foreign` names a module class that is not of an installed package; `static` marks models of static word vectors.
    """

    pooling: tuple[str, ...] = ("mean",)
    normalize: bool = False
    dense: tuple[DenseSpec, ...] = ()
    max_seq_length: int | None = None
    modules: tuple[str, ...] = ()
    transformer_path: str = ""
    declared: bool = False
    foreign: str | None = None
    static: bool = False


def read_chain(read: ReadJson, config: Mapping[str, Any]) -> Chain:
    """The chain of a checkpoint. Raises ChainError for a module file that cannot be used."""
    listed = read("modules.json")
    if listed is None:
        return Chain(max_seq_length=_max_length(read, "", config))
    classes = [_module(entry) for entry in _as_list(listed)]
    names = tuple(name.rpartition(".")[2] for name, _ in classes)
    transformer = next((path for name, path in classes if name.endswith(".Transformer")), "")
    return Chain(
        pooling=_pooling(read, classes),
        normalize="Normalize" in names,
        dense=tuple(_dense(read, path) for name, path in classes if name.endswith(".Dense")),
        max_seq_length=_max_length(read, transformer, config),
        modules=names,
        transformer_path=transformer,
        declared=True,
        foreign=next((name for name, _ in classes if not name.startswith(OWN_PACKAGES)), None),
        static=bool(_STATIC & set(names)),
    )


def _as_list(listed: Any) -> list[Any]:
    if not isinstance(listed, list):
        raise ChainError("its modules.json is not a list of modules")
    return listed


def _module(entry: Any) -> tuple[str, str]:
    match entry:
        case {"type": str(name), "path": str(path)}:
            return name, path
    raise ChainError("its modules.json has an entry without a type and a path")


def _join(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def _pooling(read: ReadJson, classes: list[tuple[str, str]]) -> tuple[str, ...]:
    path = next((path for name, path in classes if name.endswith("Pooling")), None)
    if path is None:
        return ()
    options = read(_join(path, "config.json"))
    if not isinstance(options, Mapping):
        raise ChainError(f"its pooling module {path!r:.60} has no readable config.json")
    mode = options.get("pooling_mode") or [m for key, m in _LEGACY_POOLING.items() if options.get(key) is True]
    modes = (mode,) if isinstance(mode, str) else tuple(str(m) for m in mode)
    return modes or ("mean",)


def _dense(read: ReadJson, path: str) -> DenseSpec:
    match read(_join(path, "config.json")):
        case {"in_features": int(inputs), "out_features": int(outputs)} as options:
            activation = str(options.get("activation_function", "torch.nn.modules.activation.Tanh"))
            return DenseSpec(path, inputs, outputs, bool(options.get("bias", True)), activation.rpartition(".")[2])
    raise ChainError(f"its Dense module {path!r:.60} has no config.json with in_features and out_features")


def _max_length(read: ReadJson, transformer: str, config: Mapping[str, Any]) -> int | None:
    """Tokens kept of a text: `sentence_bert_config.json`, else the tokenizer's limit capped by the position table."""
    declared = _positive((read(_join(transformer, "sentence_bert_config.json")) or {}), "max_seq_length")
    if declared is not None:
        return declared
    tokenizer = _positive((read(_join(transformer, "tokenizer_config.json")) or {}), "model_max_length")
    limits = [n for n in (tokenizer, _positive(config, "max_position_embeddings")) if n is not None]
    return min(limits, default=None)


def _positive(options: Any, key: str) -> int | None:
    value = options.get(key) if isinstance(options, Mapping) else None
    return value if type(value) is int and 0 < value < _UNBOUNDED else None
