"""Where nodes stand in a document: both kinds of documents as lists of nodes with the meta of every value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Document = Mapping[str, Any]
Node = dict[str, Any]


class Section(NamedTuple):
    """One list of nodes, `path` leading to it; values below `first` are given, and `metas` says what each value is."""

    name: str
    path: tuple[str | int, ...]
    nodes: list[Node]
    first: int
    metas: list[Any]

    def earlier_like(self, number: int, before: int) -> list[int]:
        """Values before the node `before` with the dtype and shape of value `number`, itself left out."""
        wanted = self.metas[number]
        return [n for n in range(self.first + before) if n != number and self.metas[n] == wanted]


def sections_of(document: Document) -> Iterator[Section]:
    """All sections of a document: one for a module's, constants, graphs and skeleton for a model's."""
    if "nodes" in document:
        nodes = document["nodes"]
        yield Section("document", ("nodes",), nodes, 1, ["value", *(_kind(node) for node in nodes)])
        return
    constants = document["constants"]
    yield _section("constants", ("constants", "nodes"), constants["nodes"], [e["out"] for e in constants["stock"]])
    for number, graph in enumerate(document["graphs"]):
        yield _section(
            f"graph {number}", ("graphs", number, "nodes"), graph["nodes"], [*graph["inputs"], *graph["parameters"]]
        )
    yield _section("skeleton", ("skeleton", "nodes"), document["skeleton"]["nodes"], _skeleton_given(document))


def _section(name: str, path: tuple[str | int, ...], nodes: list[Node], given: list[Any]) -> Section:
    return Section(name, path, nodes, len(given), [*given, *(node["out"] for node in nodes)])


def _kind(node: Node) -> str:
    """In a module's document all values have the input's shape: masks and numbers differ."""
    return "mask" if node["op"].split(".")[1] in {"ge", "gt", "le", "lt"} else "value"


def _skeleton_given(document: Document) -> list[Any]:
    values = constant_metas(document)
    return [*(e["out"] for e in document["inputs"]), *(values[n] for n in document["skeleton"]["parameters"])]


def constant_metas(document: Document) -> list[Any]:
    """Dtype and shape of every constant of a model's document."""
    constants = document["constants"]
    metas = [*(e["out"] for e in constants["stock"]), *(node["out"] for node in constants["nodes"])]
    return [metas[value["ref"]] for value in constants["values"]]


def replaced_nodes(nodes: list[Node], number: int, node: Node) -> list[Node]:
    """The list with one node replaced."""
    return [*nodes[:number], node, *nodes[number + 1 :]]
