"""The outline of a document: keys, types, sizes and counts, before any operator is looked at."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from . import limits
from .arguments import DTYPES, is_name
from .errors import DocumentRefused

VERSION = 1
KEYS = frozenset({"version", "case", "inputs", "constants", "graphs", "skeleton", "output"})
CASE_KEYS = frozenset({"batch", "length", "dtype"})


def check_frame(document: Any) -> None:
    """Raises DocumentRefused unless the document has the outline of version 1 and keeps its limits."""
    _is_object(document, KEYS, "document")
    if type(document["version"]) is not int or document["version"] != VERSION:
        raise DocumentRefused(f"version {str(document['version'])[:20]} is not {VERSION}")
    _check_depth(document)
    check_size(document)
    _check_case(document["case"])
    _is_object(document["constants"], {"stock", "nodes", "values"}, "constants")
    _is_object(document["skeleton"], {"parameters", "nodes"}, "skeleton")
    for value in (document["inputs"], document["graphs"], *document["constants"].values()):
        _is_list(value)
    _is_list(document["skeleton"]["parameters"])
    _is_list(document["skeleton"]["nodes"])
    for graph in document["graphs"]:
        _is_object(graph, {"inputs", "parameters", "nodes", "outputs"}, "graph")
        for value in graph.values():
            _is_list(value)
    for entry in (*document["inputs"], *document["constants"]["stock"]):
        _is_object(entry, {"name", "out"}, "tensor")
        if type(entry["name"]) is not str:
            raise DocumentRefused("a tensor's name must be text")
        meta(entry["out"])
    _check_counts(document)


def meta(value: Any) -> tuple[str, tuple[int, ...]]:
    """Dtype name and shape. Raises DocumentRefused for anything else."""
    if (
        not isinstance(value, list)
        or len(value) != 2
        or not is_name(value[0], DTYPES)
        or not isinstance(value[1], list)
    ):
        raise DocumentRefused(f"{str(value)[:80]} is not a dtype and a shape")
    if any(type(n) is not int or n < 0 for n in value[1]) or len(value[1]) > 8:
        raise DocumentRefused(f"{str(value[1])[:80]} is not a shape")
    return value[0], tuple(value[1])


def metas(value: Any) -> list[tuple[str, tuple[int, ...]]]:
    """The results of a node, one or several."""
    if isinstance(value, list) and value and isinstance(value[0], list):
        return [meta(v) for v in value]
    return [meta(value)]


def check_size(document: Any) -> None:
    """Raises DocumentRefused for a document that is no plain JSON or too long."""
    try:
        size = len(json.dumps(document, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise DocumentRefused("the document is not plain JSON") from error
    if size > limits.MAX_BYTES:
        raise DocumentRefused(f"the document has {size} bytes; the limit is {limits.MAX_BYTES}")


def all_nodes(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The nodes of every section."""
    yield from document["constants"]["nodes"]
    for graph in document["graphs"]:
        yield from graph["nodes"]
    yield from document["skeleton"]["nodes"]


def _is_object(value: Any, keys: Any, what: str) -> None:
    if not isinstance(value, dict) or set(value) != set(keys):
        raise DocumentRefused(f"a {what} has exactly the keys {', '.join(sorted(keys))}")


def _is_list(value: Any) -> None:
    if not isinstance(value, list):
        raise DocumentRefused("a list was expected")


def _check_depth(value: Any, depth: int = 0) -> None:
    if depth > limits.MAX_DEPTH:
        raise DocumentRefused("the document is nested too deeply")
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_depth(item, depth + 1)


def _check_case(case: Any) -> None:
    _is_object(case, CASE_KEYS, "case")
    if not is_name(case["dtype"], DTYPES) or any(type(case[k]) is not int or case[k] < 1 for k in ("batch", "length")):
        raise DocumentRefused("the case is not a batch, a length and a dtype")


def _check_counts(document: dict[str, Any]) -> None:
    nodes = list(all_nodes(document))
    literals = [n for n in nodes if isinstance(n, dict) and n.get("op") == "literal"]
    numbers = set(_floats([n.get("args") for n in nodes if isinstance(n, dict)]))
    numbers |= set(_floats([n.get("kwargs") for n in nodes if isinstance(n, dict)]))
    counts = (
        ("nodes", len(nodes), limits.MAX_NODES),
        ("graphs", len(document["graphs"]), limits.MAX_GRAPHS),
        ("literal tensors", len(literals), limits.LITERAL_NODES),
        ("distinct float literals", len(numbers), limits.DISTINCT_NUMBERS),
    )
    for what, found, limit in counts:
        if found > limit:
            raise DocumentRefused(f"the document has {found} {what}; the limit is {limit}")


def _floats(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _floats(item)
    elif isinstance(value, float) and math.isfinite(value):
        yield value
