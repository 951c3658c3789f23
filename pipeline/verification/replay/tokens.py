"""Does the output depend on token ids as numbers? A model looks them up; a back door compares them.

Drawn inputs hardly ever hold the one id that a special case waits for, so the way the ids take is followed instead:
from the input through the host parts. Moved, padded and looked up they are what every model does. Compared, counted or
turned into floats they are allowed only where the stock model does the same (RoBERTa counts ids that are not padding).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adapters.replay.arguments import references_of
from adapters.replay.frame import metas
from adapters.replay.operators import MOVES, SURGERY, VIEWS

IDS = "input_ids"
FLOAT, INDEX, LITERAL_TABLE, BLOCK = "a float", "an index that was computed", "a table of literals", "a block"
CARRIERS = frozenset(
    {
        *VIEWS,
        *MOVES,
        "aten.cat.default",
        "aten.clone.default",
        "aten.constant_pad_nd.default",
        "aten.flip.default",
        "aten.pad.default",
        "aten.stack.default",
        "aten.to.dtype",
        "getitem",
    }
)
"""Operators after which ids are still the ids."""

SHAPE_ONLY = frozenset(
    {
        "aten.full_like.default",
        "aten.new_full.default",
        "aten.new_ones.default",
        "aten.new_zeros.default",
        "aten.ones_like.default",
        "aten.zeros_like.default",
    }
)
"""Operators that read no value."""

EMBEDDING = "aten.embedding.default"
CLEAN, CARRIED, COMPUTED = 0, 1, 2


def uses_of_tokens(document: Mapping[str, Any]) -> set[str]:
    """What token ids become other than rows of a stock table: some of FLOAT, INDEX, LITERAL_TABLE, BLOCK."""
    tables = _from_stock(document)
    found: set[str] = set()
    _follow(document, tables, found)
    return found


def looks_up_made_tables(document: Mapping[str, Any]) -> bool:
    """Whether token ids are rows of a table that surgery made: any row of it may be another than the stock table's."""
    return LITERAL_TABLE in _follow(document, _stock_as_it_is(document), set())


def _follow(document: Mapping[str, Any], tables: set[int], found: set[str]) -> set[str]:
    """Adds to `found` what token ids become, and returns it; lookups in other values than `tables` are noted."""
    names = [entry["name"] for entry in document["inputs"]]
    skeleton = document["skeleton"]
    states = [CARRIED if name == IDS else CLEAN for name in names] + [CLEAN] * len(skeleton["parameters"])
    for node in skeleton["nodes"]:
        states.append(_after(node, states, document, tables, found))
    return found


def _after(
    node: Mapping[str, Any], states: list[int], document: Mapping[str, Any], tables: set[int], found: set[str]
) -> int:
    """The state of a node's value; what its ids become is noted."""
    if "call" in node:
        _note_call(node, states, document["graphs"][node["call"]], found)
        return CLEAN
    read = references_of(node)
    worst = max((states[n] for n in read), default=CLEAN)
    if worst == CLEAN or node["op"] in SHAPE_ONLY:
        return CLEAN
    if node["op"] == EMBEDDING:
        _note_lookup(node, states, tables, found)
        return CLEAN
    if any(dtype.startswith(("float", "bfloat")) for dtype, _ in metas(node["out"])):
        found.add(FLOAT)
    return worst if node["op"] in CARRIERS else COMPUTED


def _note_call(node: Mapping[str, Any], states: list[int], graph: Mapping[str, Any], found: set[str]) -> None:
    used = {r for inner in graph["nodes"] for r in references_of(inner)} | {o["ref"] for o in graph["outputs"]}
    given = references_of({"args": node["args"]})
    if any(states[n] != CLEAN and place in used for place, n in enumerate(given)):
        found.add(BLOCK)


def _note_lookup(node: Mapping[str, Any], states: list[int], tables: set[int], found: set[str]) -> None:
    table, index = (a["ref"] for a in node["args"][:2])
    if states[index] == COMPUTED:
        found.add(INDEX)
    if table not in tables:
        found.add(LITERAL_TABLE)


def _from_stock(document: Mapping[str, Any]) -> set[int]:
    """Numbers of the skeleton's values that rest on a stock tensor: parameters, and what is computed of them."""
    section, skeleton = document["constants"], document["skeleton"]
    first = len(section["stock"])
    rests = set(range(first))
    for number, node in enumerate(section["nodes"], start=first):
        if rests.intersection(references_of(node)):
            rests.add(number)
    start = len(document["inputs"])
    constants = [value["ref"] in rests for value in section["values"]]
    found = {start + n for n, number in enumerate(skeleton["parameters"]) if constants[number]}
    for number, node in enumerate(skeleton["nodes"], start=start + len(skeleton["parameters"])):
        if "call" not in node and found.intersection(references_of(node)):
            found.add(number)
    return found


SAME_VALUES = frozenset({*MOVES, "aten.alias.default", "aten.clone.default", "aten.detach.default", "aten.to.dtype"})
"""Operators after which a stock tensor is still itself: casts are for the device oracles."""


def _stock_as_it_is(document: Mapping[str, Any]) -> set[int]:
    """Numbers of the skeleton's values that are stock tensors, cast or moved at most. None if surgery writes in place:
    a tensor under its stock name may then hold other values."""
    section, skeleton = document["constants"], document["skeleton"]
    if any(SURGERY[n["op"]]._schema.is_mutable for n in section["nodes"] if n["op"] in SURGERY):
        return set()
    kept = _and_moved(set(range(len(section["stock"]))), section["nodes"], len(section["stock"]))
    start = len(document["inputs"])
    constants = [value["ref"] in kept for value in section["values"]]
    found = {start + n for n, number in enumerate(skeleton["parameters"]) if constants[number]}
    return _and_moved(found, skeleton["nodes"], start + len(skeleton["parameters"]))


def _and_moved(numbers: set[int], nodes: Sequence[Mapping[str, Any]], start: int) -> set[int]:
    found = set(numbers)
    for number, node in enumerate(nodes, start=start):
        if node.get("op") in SAME_VALUES and set(references_of(node)) <= found:
            found.add(number)
    return found


def strange_uses_of_tokens(stock: Mapping[str, Any], patched: Mapping[str, Any]) -> set[str]:
    """What the patched document makes of token ids and the stock one does not."""
    return uses_of_tokens(patched) - uses_of_tokens(stock)
