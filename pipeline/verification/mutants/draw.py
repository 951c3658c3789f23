"""Drawing mutants: kinds in turn, places by seed, every one different from all others and fit to run."""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

from pipeline.verification.mutants.fit import Fit, fit_of
from pipeline.verification.mutants.mistakes import MISTAKES, base_of
from pipeline.verification.mutants.sections import Document, Node, Section, sections_of


class Mutant(NamedTuple):
    """One mistake: its kind, where it is, what stands there now, and the whole document."""

    kind: str
    place: str
    document: dict[str, Any]


class Place(NamedTuple):
    """One mistake that could be made."""

    section: Section
    number: int
    node: Node


def mutants(document: Document, seed: int, count: int, before: Document | None = None) -> list[Mutant]:
    """Up to `count` distinct documents that differ from `document` in one node; fewer if there are no more.

    Kinds are drawn in turn, so that one with many places does not crowd out the others. With `before`, the document
    without a patch, nodes that only `document` has are drawn first: the mutants are of that patch. A mutant's operator
    accepts its arguments and gives the dtype and shape the document says; whether validation lets it pass is left to
    whoever measures, and so is whether it computes something else at all.
    """
    drawn = random.Random(seed)  # noqa: S311 - a reproducible choice, no secret
    fit, known = fit_of(document), _texts_of(before) if before is not None else frozenset()
    waiting = {kind: _places(document, kind) for kind in MISTAKES}
    for places in waiting.values():
        drawn.shuffle(places)
        places.sort(key=lambda place: _text(place.section.nodes[place.number]) not in known)  # drawn from the end
    found: dict[str, Mutant] = {}
    while len(found) < count and any(waiting.values()):
        for kind, places in waiting.items():
            place = _next(places, fit, found) if len(found) < count else None
            if place is not None:
                found[_key(place)] = _mutant(document, kind, place)
    return list(found.values())


def _places(document: Document, kind: str) -> list[Place]:
    return [
        Place(section, number, node)
        for section in sections_of(document)
        for number in range(len(section.nodes))
        for node in MISTAKES[kind](section, number)
    ]


def _texts_of(document: Document) -> frozenset[str]:
    return frozenset(_text(node) for section in sections_of(document) for node in section.nodes)


def _text(node: Node) -> str:
    """A node without the numbers of the values it reads."""
    return json.dumps(masked(node), sort_keys=True)


def masked(value: Any) -> Any:
    """Nested JSON with every reference as 0."""
    if isinstance(value, dict):
        return {k: 0 if k == "ref" else masked(v) for k, v in value.items()}
    return [masked(v) for v in value] if isinstance(value, list) else value


def _next(places: list[Place], fit: Fit, found: dict[str, Mutant]) -> Place | None:
    """The next place that changes something, runs, and is not taken yet."""
    while places:
        place = places.pop()
        changed = place.node != place.section.nodes[place.number]
        if changed and _key(place) not in found and fit(place.section, place.number, place.node):
            return place
    return None


def _key(place: Place) -> str:
    return json.dumps([place.section.name, place.number, place.node], sort_keys=True)


def _mutant(document: Document, kind: str, place: Place) -> Mutant:
    before = _said(place.section.nodes[place.number])
    text = f"{place.section.name}, node {place.number}: {before} -> {_said(place.node)}"
    changed = replaced(dict(document), (*place.section.path, place.number), place.node)
    return Mutant(kind, text, changed)


def replaced(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    """A copy of nested JSON with `new` at `path`; what is not on the path is shared."""
    if not path:
        return new
    copy = list(value) if isinstance(value, list) else dict(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)  # type: ignore[index, call-overload]
    return copy


def _said(node: Node) -> str:
    name = f"call {node['call']}" if "call" in node else base_of(node)
    rest = {k: v for k, v in node.get("kwargs", {}).items() if k not in {"layout", "device", "pin_memory"}}
    parameters = [node["parameters"]] if "call" in node else []
    return json.dumps([name, *node["args"], *parameters, *([rest] if rest else [])])[:200]
