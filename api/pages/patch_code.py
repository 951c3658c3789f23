"""Code on both sides of a patch: the stock functions that a diagnosis names, and what runs in their place.

Both are read from the installed files and never imported: the pages load neither torch nor transformers.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from api.pages.sources import Excerpt, Line, inside_package, stock_file

MOST_LINES = 120
"""A longer function is shown around the first line that a failure names."""
ONLY_LOOKS = frozenset({"match", "replaced"})
"""Methods of a pattern that change nothing."""
Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@lru_cache(maxsize=64)
def _parsed(path: Path) -> tuple[ast.Module, list[str]]:
    text = path.read_text(encoding="utf-8")
    return ast.parse(text), text.splitlines()


def stock_functions(places: Iterable[str]) -> list[Excerpt]:
    """The functions around "file.py:line" places of the stock packages, each once, with every named line marked."""
    named: dict[tuple[Path, int, int], set[int]] = {}
    for place in places:
        found = stock_file(place)
        if found is not None:
            path, line = found
            named.setdefault((path, *_span(path, line)), set()).add(line)
    return [_excerpt(path, first, last, lines) for (path, first, last), lines in named.items()]


def _span(path: Path, line: int) -> tuple[int, int]:
    """First and last line of the innermost function around `line`; of the lines about it if there is none."""
    tree, lines = _parsed(path)
    around = [n for n in ast.walk(tree) if isinstance(n, Function) and n.lineno <= line <= (n.end_lineno or 0)]
    if not around:
        return max(line - 3, 1), min(line + 3, len(lines))
    inner = max(around, key=lambda node: node.lineno)
    first, last = inner.lineno, inner.end_lineno or line
    if last - first < MOST_LINES:
        return first, last
    return max(first, line - MOST_LINES // 2), min(last, line + MOST_LINES // 2)


def _excerpt(path: Path, first: int, last: int, named: set[int]) -> Excerpt:
    _, lines = _parsed(path)
    shown = [Line(n, text, n in named) for n, text in enumerate(lines[first - 1 : last], start=first)]
    return Excerpt(f"{inside_package(path)}:{min(named, default=first)}", shown)


def forward_of_model(config: Mapping[str, Any] | None) -> Excerpt | None:
    """The stock forward of the class that `config.json` names: what a patch of the whole model runs differently."""
    names = (config or {}).get("architectures") or ()
    kind = str((config or {}).get("model_type") or "").replace("-", "_")
    found = stock_file(f"modeling_{kind}.py:1")
    if found is None or not isinstance(names, list):
        return None
    path, _ = found
    tree, _ = _parsed(path)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    forwards = (_method(classes[name], "forward") for name in names if name in classes)
    node = next((node for node in forwards if node is not None), None)
    return None if node is None else _excerpt(path, node.lineno, node.end_lineno or node.lineno, set())


def _method(node: ast.ClassDef, name: str) -> Function | None:
    return next((item for item in node.body if isinstance(item, Function) and item.name == name), None)


def applied_code(file: Path, class_name: str) -> list[str]:
    """What a pattern's class does to a model: its methods that act, and what they reach in the same file."""
    tree, lines = _parsed(file)
    top = {node.name: node for node in tree.body if isinstance(node, Definition)}
    start = top.get(class_name)
    if not isinstance(start, ast.ClassDef):
        return []
    acting = [method for base in _bases(start, top) for method in _acting(base)]
    reached = _reached([start, *acting], top)
    segments = [_segment(node, lines) for node in [*acting, *reached]]
    return [line for segment in segments for line in [*segment, ""]][:-1]


def _bases(node: ast.ClassDef, top: Mapping[str, Definition]) -> list[ast.ClassDef]:
    """The class and those of its bases that stand in the same file."""
    named = [top[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in top]
    return [node, *(found for base in named if isinstance(base, ast.ClassDef) for found in _bases(base, top))]


def _acting(node: ast.ClassDef) -> list[Function]:
    methods = [item for item in node.body if isinstance(item, Function) and item.name not in ONLY_LOOKS]
    return sorted(methods, key=lambda method: method.name != "apply")


def _reached(start: Sequence[ast.AST], top: Mapping[str, Definition]) -> list[Definition]:
    """The functions and classes of the file that the code names, directly or not, in the order of the file."""
    found: dict[str, Definition] = {}
    open_nodes = list(start)
    skipped = {node.name for node in start if isinstance(node, ast.ClassDef)}
    while open_nodes:
        for name in _names(open_nodes.pop()):
            node = top.get(name)
            if node is not None and name not in found and name not in skipped and not _is_pattern(node):
                found[name] = node
                open_nodes.append(node)
    return sorted(found.values(), key=lambda node: node.lineno)


def _names(node: ast.AST) -> Iterator[str]:
    """Names that are read in a node; of a pattern's class those of its assignments only."""
    body = getattr(node, "body", ())
    parts = [item for item in body if isinstance(item, ast.AnnAssign | ast.Assign)] if _is_pattern(node) else [node]
    for part in parts:
        yield from (item.id for item in ast.walk(part) if isinstance(item, ast.Name))


def _is_pattern(node: ast.AST) -> bool:
    if not isinstance(node, ast.ClassDef):
        return False
    return any(isinstance(item, ast.AnnAssign) and getattr(item.target, "id", "") == "pattern" for item in node.body)


def _segment(node: ast.AST, lines: Sequence[str]) -> list[str]:
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])  # type: ignore[attr-defined]
    return textwrap.dedent("\n".join(lines[first - 1 : node.end_lineno])).splitlines()  # type: ignore[attr-defined]
