"""What must hold between documents: one structure for all cases, and every stock tensor that counts still counts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from adapters.replay.arguments import references, references_of
from adapters.replay.errors import DocumentRefused

FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})

BUCKET = 64
"""Lengths that are whole buckets need no padding; their host part may be another than that of all other lengths."""


def same_structure(documents: Sequence[Mapping[str, Any]]) -> None:
    """Raises DocumentRefused unless all documents are one structure with whole numbers masked.

    Blocks and constants must agree over all cases; host parts over all lengths that are whole buckets, and over all
    that are not (those are padded and cropped).
    """
    first: dict[Any, tuple[str, Mapping[str, Any]]] = {}
    for document in documents:
        case = document["case"]
        host = without_formalities(document["skeleton"]["nodes"], _held(document), [document["output"]])
        parts = {
            "blocks": [[_graph_structure(g) for g in document["graphs"]], document["constants"]],
            ("host parts", case["length"] % BUCKET == 0): [document["skeleton"]["parameters"], *host],
        }
        for part, content in parts.items():
            text = json.dumps(masked(content), sort_keys=True)
            known, where = first.setdefault(part, (text, case))
            if known != text:
                name = part if isinstance(part, str) else part[0]
                raise DocumentRefused(f"the {name} of {_said(case)} and {_said(where)} differ in structure")


def _held(document: Mapping[str, Any]) -> int:
    return len(document["inputs"]) + len(document["skeleton"]["parameters"])


def _graph_structure(graph: Mapping[str, Any]) -> list[Any]:
    held = len(graph["inputs"]) + len(graph["parameters"])
    return [graph["inputs"], graph["parameters"], *without_formalities(graph["nodes"], held, graph["outputs"])]


def without_formalities(
    nodes: Sequence[Mapping[str, Any]], first: int, outputs: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Nodes and outputs as if copies into order and slices from the first element on were their source.

    `first` values come before. A table that is exactly as long as the case is not sliced at all, and what lies in order
    already (a batch of one, cropped) is not copied, so neither is structure.
    """
    numbers = {n: n for n in range(first)}
    kept: list[Any] = []
    for place, node in enumerate(nodes):
        if _is_formality(node):
            numbers[first + place] = numbers[node["args"][0]["ref"]]
            continue
        numbers[first + place] = first + len(kept)
        kept.append(_renumbered(node, numbers))
    return kept, [_renumbered(o, numbers) for o in outputs]


def _is_formality(node: Mapping[str, Any]) -> bool:
    if node.get("op") == "aten.contiguous.default":
        return True
    if node.get("op") != "aten.slice.Tensor" or node["kwargs"]:
        return False
    given: list[Any] = list(node["args"][1:])
    _, start, _, step = given + [0, None, None, 1][len(given) :]
    return start in (None, 0) and step == 1


def _renumbered(value: Any, numbers: Mapping[int, int]) -> Any:
    if isinstance(value, Mapping):
        return {k: numbers[v] if k == "ref" else _renumbered(v, numbers) for k, v in value.items()}
    return [_renumbered(v, numbers) for v in value] if isinstance(value, list) else value


def _said(case: Mapping[str, Any]) -> str:
    return f"batch {case['batch']} length {case['length']}"


def masked(value: Any) -> Any:
    """The same with every whole number that is not a reference as 0, so that sizes do not count."""
    if isinstance(value, Mapping):
        return {k: v if k in ("ref", "call") else masked(v) for k, v in value.items()}
    if isinstance(value, list):
        return [masked(v) for v in value]
    return 0 if type(value) is int else value


def reachable(document: Mapping[str, Any]) -> set[str]:
    """The names of the stock tensors that the output rests on, through blocks and derived constants."""
    used = _constants_in_use(document)
    section = document["constants"]
    first = len(section["stock"])
    wanted = {section["values"][n]["ref"] for n in used}
    nodes = [(first + i, n) for i, n in enumerate(section["nodes"])]
    written = _writes(nodes)
    found = _closure(wanted, dict(nodes), written)
    return {section["stock"][n]["name"] for n in found if n < first}


def left_out(stock: Mapping[str, Any], patched: Mapping[str, Any]) -> set[str]:
    """Float tensors that the stock document's output rests on and the patched one's does not.

    Integer buffers (position and token type ids) do not count: what a host part counts afresh is not a weight.
    """
    floats = {e["name"] for e in stock["constants"]["stock"] if e["out"][0] in FLOATS}
    return (reachable(stock) & floats) - reachable(patched)


def _constants_in_use(document: Mapping[str, Any]) -> set[int]:
    """Numbers of the constants that the output reads."""
    skeleton = document["skeleton"]
    held = len(document["inputs"])
    first = held + len(skeleton["parameters"])
    nodes = {first + i: n for i, n in enumerate(skeleton["nodes"])}
    graphs = [_used_by_graph(g) for g in document["graphs"]]
    used: set[int] = set()
    todo: list[tuple[int, int | None]] = [(document["output"]["ref"], None)]
    seen: set[tuple[int, int | None]] = set()
    while todo:
        number, item = todo.pop()
        if (number, item) in seen:
            continue
        seen.add((number, item))
        if number < first:
            used |= {skeleton["parameters"][number - held]} if number >= held else set()
            continue
        node = nodes[number]
        if "call" in node:
            args, constants = _of_call(node, graphs[node["call"]], item)
            used |= constants
            todo += [(n, None) for n in args]
        elif node["op"] == "getitem":
            todo.append((node["args"][0]["ref"], node["args"][1]))
        else:
            todo += [(n, None) for n in references_of(node)]
    return used


def _used_by_graph(graph: Mapping[str, Any]) -> list[set[int]]:
    """For each output of a graph the numbers of the inputs and parameters it reads."""
    first = len(graph["inputs"]) + len(graph["parameters"])
    nodes = {first + i: n for i, n in enumerate(graph["nodes"])}
    return [{n for n in _closure({o["ref"]}, nodes, {}) if n < first} for o in graph["outputs"]]


def _of_call(node: Mapping[str, Any], outputs: list[set[int]], item: int | None) -> tuple[list[int], set[int]]:
    """What one output of a call reads: earlier values and constants."""
    read = outputs[item] if item is not None else set().union(*outputs)
    given = references(node["args"])
    return [given[n] for n in read if n < len(given)], {
        node["parameters"][n - len(given)] for n in read if n >= len(given)
    }


def _closure(wanted: set[int], nodes: Mapping[int, dict[str, Any]], also: Mapping[int, list[int]]) -> set[int]:
    """All numbers that the wanted ones read. `also` names what is read with a number beside its node's references."""
    todo, found = list(wanted), set[int]()
    while todo:
        number = todo.pop()
        if number in found:
            continue
        found.add(number)
        todo += also.get(number, [])
        if number in nodes:
            todo += references_of(nodes[number])
    return found


def _writes(nodes: Sequence[tuple[int, dict[str, Any]]]) -> dict[int, list[int]]:
    """For each value the in-place nodes that write to it: they and what they read count for whatever shares it.

    Views share memory, so that a write to a view counts for its source and the other way round.
    """
    from adapters.replay.operators import SURGERY, VIEWS

    shares: dict[int, set[int]] = {}
    writes: dict[int, list[int]] = {}
    for number, node in nodes:
        read = references_of(node)
        is_write = node["op"] in SURGERY and SURGERY[node["op"]]._schema.is_mutable
        if (is_write or node["op"] in VIEWS | SHARING) and read:
            group = shares.setdefault(read[0], {read[0]})
            group.add(number)
            shares[number] = group
        if is_write:
            for member in shares[read[0]]:
                writes.setdefault(member, []).append(number)
    return writes


SHARING = frozenset(
    {"aten.alias.default", "aten.detach.default", "aten.as_strided.default", "aten._reshape_alias.default", "getitem"}
)
"""Operators of surgery whose result shares memory with what they read."""
