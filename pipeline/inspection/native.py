"""Which model types stock transformers has a class for, read from its source text: no import of torch or transformers.

The tables are the `*_MAPPING_NAMES` dictionaries of `transformers/models/auto`; they hold names only. They are parsed,
not executed, so that the API and the worker parents can inspect checkpoints without loading a deep-learning library.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pipeline.errors import EnvironmentProblem

_CONFIGS, _MODELS, _ENCODERS = "CONFIG_MAPPING_NAMES", "MODEL_MAPPING_NAMES", "MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES"
_FILES = ("auto_mappings.py", "configuration_auto.py", "modeling_auto.py")


@dataclass(frozen=True)
class NativeClasses:
    """`configs` and `models` map model_type to class names; `names` holds every model class any auto class can make."""

    configs: dict[str, str]
    models: dict[str, str]
    names: frozenset[str]


@lru_cache(maxsize=1)
def native_classes() -> NativeClasses:
    """The tables of the installed transformers. Raises EnvironmentProblem if it is missing or laid out differently."""
    tables: dict[str, dict[str, str]] = {}
    for file in _FILES:
        for name, rows in _tables((_auto_folder() / file).read_text(encoding="utf-8")):
            tables.setdefault(name, {}).update(rows)
    if not tables.get(_CONFIGS) or not tables.get(_MODELS):
        raise EnvironmentProblem(
            "the installed transformers keeps its model tables elsewhere; install the pinned version"
        )
    names = frozenset(c for name, rows in tables.items() if name.startswith("MODEL_") for c in rows.values())
    return NativeClasses(tables[_CONFIGS], {**tables[_MODELS], **_encoder_only(tables.get(_ENCODERS, {}))}, names)


def native_class(model_type: str) -> str | None:
    """The stock class that gives embeddings for `model_type` ("BertModel", "T5EncoderModel"), or None."""
    tables = native_classes()
    return tables.models.get(model_type) if model_type in tables.configs else None


def _encoder_only(encoders: dict[str, str]) -> dict[str, str]:
    """Encoder-decoder types of which only the encoder embeds (t5, mt5, umt5, t5gemma)."""
    return {kind: name for kind, name in encoders.items() if name.endswith("EncoderModel")}


def _auto_folder() -> Path:
    spec = importlib.util.find_spec("transformers")
    folder = Path(spec.origin).parent / "models" / "auto" if spec and spec.origin else None
    if folder is None or not all((folder / file).is_file() for file in _FILES):
        raise EnvironmentProblem("transformers is not installed completely; run `make setup`")
    return folder


def _tables(source: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Every `X_MAPPING_NAMES = OrderedDict(...)` and `X_MAPPING_NAMES.update({...})` of a module, as plain tables."""
    for node in ast.parse(source).body:
        name, call = _named_call(node)
        if name is not None and call is not None and name.endswith("_MAPPING_NAMES"):
            yield name, dict(_rows(call))


def _named_call(node: ast.stmt) -> tuple[str | None, ast.Call | None]:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
            return name, call
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="update")) as call):
            return name, call
    return None, None


def _rows(call: ast.Call) -> Iterator[tuple[str, str]]:
    values = [*call.args, *(k.value for k in call.keywords if k.arg is None)]
    for value in values:
        match value:
            case ast.List(elts=pairs):
                keys_values = [p.elts for p in pairs if isinstance(p, ast.Tuple) and len(p.elts) == 2]
            case ast.Dict(keys=keys, values=items):
                keys_values = [[k, v] for k, v in zip(keys, items, strict=True) if k is not None]
            case _:
                continue
        yield from ((k, v) for k, v in (map(_text, pair) for pair in keys_values) if k and v)


def _text(node: ast.expr) -> str | None:
    """A string literal, or the first string of a tuple of them; None for anything else."""
    if isinstance(node, ast.Tuple) and node.elts:
        node = node.elts[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
