"""Which files of a repository matter, by name: the form of its weights, and what may be fetched.

One table serves the inspection, the catalogue and the fetcher, so that they cannot disagree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from pipeline.catalogue.entry import WeightsForm

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")

MAX_SMALL_BYTES = 4_000_000
"""A configuration file larger than this is not read."""

_TOKENIZER = frozenset(
    {
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.json",
        "vocab.txt",
        "merges.txt",
        "bpe.codes",
        "sentencepiece.bpe.model",
        "spiece.model",
        "spm.model",
        "tokenizer.model",
        "chat_template.jinja",
        "entity_vocab.json",
        "dict.txt",
    }
)
_PLAIN = frozenset(
    {
        CONFIG,
        "modules.json",
        "sentence_bert_config.json",
        "config_sentence_transformers.json",
        "preprocessor_config.json",
    }
)
_MODULE_FOLDER = re.compile(r"\d{1,2}(_[A-Za-z0-9]+)?")
_MODULE_FILES = frozenset({CONFIG, "model.safetensors", "sentence_bert_config.json", INDEX}) | _TOKENIZER

_NOT_TRAINING = "(?!training_args|optimizer|scheduler|scaler|rng_state)"

_FORMS: tuple[tuple[WeightsForm, re.Pattern[str]], ...] = (
    (WeightsForm.PICKLE, re.compile(r"(pytorch_model|model)[^/]*\.(bin|pt|pth|ckpt)")),
    (WeightsForm.ADAPTER, re.compile(r"adapter_(model\.(safetensors|bin)|config\.json)")),
    (WeightsForm.GGUF, re.compile(r".*\.gguf")),
    (WeightsForm.ONNX, re.compile(r".*\.onnx(_data)?")),
    (WeightsForm.OTHER, re.compile(rf"{_NOT_TRAINING}.*\.(h5|msgpack|tflite|ot|mlmodel|npz|safetensors|bin|pt|pth)")),
)
"""Tried in this order after safetensors."""


def is_safe_name(name: str) -> bool:
    """True for a plain relative path that stays in its folder: no root, no `..`, no backslash, no control character."""
    path = PurePosixPath(name)
    return (
        bool(name)
        and not path.is_absolute()
        and ".." not in path.parts
        and "\\" not in name
        and name.isprintable()
        and str(path) == name
    )


def is_root_weights(name: str) -> bool:
    """True for the safetensors files that stock transformers loads from the root of a repository."""
    return name in {"model.safetensors", INDEX} or bool(SHARD.fullmatch(name))


def is_wanted(name: str) -> bool:
    """True for the files a model child needs: configuration, tokenizer, modules, safetensors; no pickle, no code."""
    if not is_safe_name(name):
        return False
    folder, _, file = name.rpartition("/")
    if not folder:
        return name in _PLAIN or name in _TOKENIZER or is_root_weights(name)
    return "/" not in folder and bool(_MODULE_FOLDER.fullmatch(folder)) and file in _MODULE_FILES


def weights_form(names: Iterable[str]) -> WeightsForm:
    """The best form in which the repository holds loadable weights: native first, then what they would be instead.

    Files of a numbered module folder count when the root has none: some repositories keep the transformer in `0_*/`.
    """
    listed = list(names)
    roots = [n for n in listed if "/" not in n]
    transformer = [n.partition("/")[2] for n in listed if n.startswith(("0_", "0/"))]
    for group in (roots, transformer):
        if any(is_root_weights(n) for n in group):
            return WeightsForm.SAFETENSORS
    for form, pattern in _FORMS:
        if any(pattern.fullmatch(n) for n in (*roots, *transformer)):
            return form
    nested = (form for form, pattern in _FORMS for n in listed if pattern.fullmatch(n.rpartition("/")[2]))
    return next(nested, WeightsForm.NONE)


def python_files(names: Iterable[str]) -> list[str]:
    """Python sources in the root: code that only remote-code mode would run."""
    return sorted(n for n in names if n.endswith(".py") and "/" not in n)
