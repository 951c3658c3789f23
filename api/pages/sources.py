"""Source text for reviewers: the stock line a failure names, and the patch that replaces it. Read, never imported."""

from __future__ import annotations

import ast
import importlib.util
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

STOCK_PACKAGES = ("transformers", "sentence_transformers")
AROUND = 3


class Line(NamedTuple):
    """A line of a file; `named` is true for the one a failure names."""

    number: int
    text: str
    named: bool


class Excerpt(NamedTuple):
    """Lines around the place a failure names."""

    place: str
    lines: list[Line]


class PatternSource(NamedTuple):
    """What the pattern library says of a pattern: its first sentence, its mathematics, what it replaces, its code."""

    promise: str
    mathematics: str
    replaces: str
    code: str
    file: str
    name: str

    @property
    def path(self) -> Path:
        """The file it stands in."""
        return _folder("adapters").parent / self.file


def stock_file(source: str) -> tuple[Path, int] | None:
    """File and line of "file.py:line" in the installed stock packages; None if there is no such file."""
    name, _, number = source.rpartition(":")
    paths = _stock_files().get(name, ())
    if not number.isdecimal() or not paths:
        return None
    return min(paths, key=lambda p: len(p.parts)), int(number)


def stock_excerpt(source: str) -> Excerpt | None:
    """The lines around "file.py:line" of the installed stock packages; None if the file is not found."""
    found = stock_file(source)
    if found is None:
        return None
    path, line = found
    lines = path.read_text(encoding="utf-8").splitlines()
    first = max(line - AROUND, 1)
    shown = [Line(n, text, n == line) for n, text in enumerate(lines[first - 1 : line + AROUND], start=first)]
    return Excerpt(f"{inside_package(path)}:{line}", shown) if shown else None


def inside_package(path: Path) -> str:
    """A stock file's path from its package on."""
    package = next(folder for folder in map(_folder, STOCK_PACKAGES) if path.is_relative_to(folder))
    return str(path.relative_to(package.parent))


@lru_cache(maxsize=1)
def _stock_files() -> dict[str, tuple[Path, ...]]:
    found: dict[str, list[Path]] = defaultdict(list)
    for package in STOCK_PACKAGES:
        for path in _folder(package).rglob("*.py"):
            found[path.name].append(path)
    return {name: tuple(paths) for name, paths in found.items() if name != "__init__.py"}


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    return Path(spec.origin).parent if spec and spec.origin else Path("/nonexistent")


@lru_cache(maxsize=1)
def pattern_sources() -> dict[str, list[PatternSource]]:
    """Pattern id to the classes of the pattern library that carry it."""
    found: dict[str, list[PatternSource]] = defaultdict(list)
    for path in sorted((_folder("adapters") / "patches").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        for pattern, source in _patterns_in(text, path.name):
            found[pattern].append(source)
    return dict(found)


def _patterns_in(text: str, file: str) -> Iterator[tuple[str, PatternSource]]:
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef) and "pattern" in (stated := _stated(node)):
            code = ast.get_source_segment(text, node) or ""
            told = (_sentence(node), stated.get("mathematics", ""), _replaces(node))
            yield stated["pattern"], PatternSource(*told, code, f"adapters/patches/{file}", node.name)


def _sentence(node: ast.ClassDef | ast.FunctionDef) -> str:
    return (ast.get_docstring(node) or "").split("\n\n")[0].replace("\n", " ")


def _replaces(node: ast.ClassDef) -> str:
    """What the class says that its replacement relies on."""
    methods = (item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "replaced")
    return next((_sentence(method) for method in methods), "")


def _stated(node: ast.ClassDef) -> dict[str, str]:
    """The class variables that are plain texts."""
    return {
        item.target.id: item.value.value
        for item in node.body
        if isinstance(item, ast.AnnAssign)
        and isinstance(item.target, ast.Name)
        and isinstance(item.value, ast.Constant)
        and isinstance(item.value.value, str)
    }


def pattern_source(pattern: str, parameters: dict[str, Any]) -> PatternSource | None:
    """The source of a patch's pattern; of several classes with one id, the one whose code has all its parameters."""
    found = pattern_sources().get(pattern, [])
    fitting = [source for source in found if all(f"{name}:" in source.code for name in parameters)]
    return next(iter(fitting or found), None)


def document_lines(document: Any) -> list[str]:
    """A drafted document as one assignment per line; what does not look like one is left to the JSON beside it."""
    nodes = document.get("nodes") if isinstance(document, dict) else None
    if not isinstance(nodes, list):
        return []
    lines = [f"v{i} = {node.get('op')}({', '.join(_arguments(node))})" for i, node in enumerate(nodes, start=1)]
    return [*lines, f"return {_value(document.get('output'))}"]


def _arguments(node: dict[str, Any]) -> list[str]:
    named = [f"{name}={_value(value)}" for name, value in (node.get("kwargs") or {}).items()]
    return [*(_value(value) for value in node.get("args") or ()), *named]


def _value(value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"ref"}:
        return "x" if value["ref"] == 0 else f"v{value['ref']}"
    return repr(value)
