"""Which module class a cause belongs to, and its source text. Nothing is imported: sources are read and parsed.

Only files of `transformers` are read, so that a path made up by a model reaches nothing else.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from agents.types import Diagnosis

PACKAGE = "transformers"
DOCUMENT_PATTERN = "P01"
"""The pattern whose parameter is a document for one element-wise module class."""


class NoSource(ValueError):
    """There is no such class in the sources that may be read."""


def module_class_of(diagnosis: Diagnosis) -> str | None:
    """The element-wise module class a document could replace to cure the cause; None if the diagnosis names none."""
    named = [use.parameters.get("module_class") for use in diagnosis.patterns if use.pattern == DOCUMENT_PATTERN]
    named.append(diagnosis.evidence.get("module_class"))
    return next((str(name) for name in named if name), None)


def read_class_source(name: str) -> str:
    """The source of a class or function of `transformers`, by dotted name, or what a module of it defines.

    "transformers.activations.NewGELUActivation"; "transformers.models.bert.modeling_bert" gives names with lines.
    Raises NoSource if the name is neither.
    """
    module, _, wanted = name.rpartition(".")
    if (path := _module_file(name)) is not None:
        return _outline(path)
    path = _file_of(module)
    text = path.read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        if isinstance(node, DEFINITIONS) and node.name == wanted:
            return ast.get_source_segment(text, node) or ""
    raise NoSource(f"{wanted!r} is not a class of {module!r}")


DEFINITIONS = (ast.ClassDef, ast.FunctionDef)


def _outline(path: Path) -> str:
    nodes = ast.parse(path.read_text(encoding="utf-8")).body
    kinds = {ast.ClassDef: "class", ast.FunctionDef: "def"}
    return "\n".join(f"line {n.lineno}: {kinds[type(n)]} {n.name}" for n in nodes if isinstance(n, DEFINITIONS))


def _module_file(name: str) -> Path | None:
    try:
        return _file_of(name)
    except NoSource:
        return None


@lru_cache(maxsize=1)
def _package_folder() -> Path:
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise NoSource(f"{PACKAGE!r} is not installed")
    return Path(spec.origin).parent


def _file_of(module: str) -> Path:
    parts = module.split(".")
    if parts[0] != PACKAGE or not all(part.isidentifier() for part in parts):
        raise NoSource(f"only classes of {PACKAGE!r} can be read, not {module!r}")
    path = _package_folder().joinpath(*parts[1:]).with_suffix(".py")
    if len(parts) < 2 or not path.is_file():
        raise NoSource(f"there is no module {module!r}")
    return path
