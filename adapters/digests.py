"""Digests that hold still under formatting: canonical JSON, and source compared without comments and docstrings."""

from __future__ import annotations

import ast
import hashlib
import inspect
import io
import json
import textwrap
import tokenize
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

OWN_ROOT = __name__.partition(".")[0]


def canonical(value: Any) -> bytes:
    """Canonical JSON: sorted keys, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest_of(value: Any) -> str:
    """sha256 (hex) over the canonical JSON of `value`."""
    return hashlib.sha256(canonical(value)).hexdigest()


def meaning_of_source(text: str) -> str:
    """The source's lines without comments, docstrings, blank lines and trailing spaces; the same on every Python."""
    text = textwrap.dedent(text)
    lines = text.splitlines()
    for row, column in _comments(text):
        lines[row - 1] = lines[row - 1][:column]
    skipped = _docstring_rows(text)
    kept = (line.rstrip() for row, line in enumerate(lines, start=1) if row not in skipped)
    return "\n".join(line for line in kept if line)


def _comments(text: str) -> list[tuple[int, int]]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.start for token in tokens if token.type == tokenize.COMMENT]


def _docstring_rows(text: str) -> set[int]:
    rows: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            rows |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return rows


@lru_cache(maxsize=1024)
def source_of(thing: Any) -> str:
    """The source text of a class, function or module, read once per process. Raises OSError where there is none."""
    return inspect.getsource(inspect.unwrap(thing))


@lru_cache(maxsize=1024)
def source_digest(thing: Any) -> str:
    """sha256 over the meaning of the source of a class, function or module. Raises OSError where there is no source."""
    return hashlib.sha256(meaning_of_source(source_of(thing)).encode()).hexdigest()


def name_of(thing: Any) -> str:
    """`module.QualName` of a class or function; our own package counts as `adapters` under either of its names."""
    root, dot, rest = thing.__module__.partition(".")
    return f"{'adapters' if root == OWN_ROOT else root}{dot}{rest}.{thing.__qualname__}"


def sources_digest(things: Iterable[Any]) -> str:
    """One digest over the named sources of several classes and functions, in any order, each counted once."""
    return digest_of(sorted({(name_of(t), source_digest(t)) for t in things}))
