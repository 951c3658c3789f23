"""Documents without powers: small whole exponents become products, halves become roots. Used to make P01 documents."""

from __future__ import annotations

from typing import Any

from ..document import VERSION, validate

MAX_EXPONENT = 16
ROOTS = {0.5: "aten.sqrt.default", -0.5: "aten.rsqrt.default", -1.0: "aten.reciprocal.default"}
POWERS = frozenset({"aten.pow.Tensor_Scalar", "aten.square.default"})


def has_powers(document: dict[str, Any]) -> bool:
    """True if a node of the document is a power."""
    return any(node["op"] in POWERS for node in document["nodes"])


def rewrite_powers(document: dict[str, Any]) -> dict[str, Any]:
    """The same function with x^n as products by repeated squaring and x^±0.5 as roots.

    Relative error at most (number of products) units of rounding. Powers of other kinds stay. Raises DocumentRefused
    for a document that breaks a rule.
    """
    validate(document)
    moved: dict[int, int] = {0: 0}
    nodes: list[dict[str, Any]] = []
    for number, node in enumerate(document["nodes"], start=1):
        nodes += _rewritten(_renumbered(node, moved), len(nodes))
        moved[number] = len(nodes)
    output = {"ref": moved[document["output"]["ref"]]}
    return validate({"version": VERSION, "nodes": nodes, "output": output})


def _renumbered(node: dict[str, Any], moved: dict[int, int]) -> dict[str, Any]:
    def value(v: Any) -> Any:
        return {"ref": moved[v["ref"]]} if isinstance(v, dict) else v

    written = {"op": node["op"], "args": [value(a) for a in node["args"]]}
    if node.get("kwargs"):
        written["kwargs"] = {k: value(v) for k, v in node["kwargs"].items()}
    return written


def _rewritten(node: dict[str, Any], before: int) -> list[dict[str, Any]]:
    if node["op"] not in POWERS:
        return [node]
    base, exponent = node["args"][0], 2 if node["op"] == "aten.square.default" else node["args"][1]
    if exponent in ROOTS:
        return [{"op": ROOTS[exponent], "args": [base]}]
    if exponent == int(exponent) and 2 <= exponent <= MAX_EXPONENT:
        return _products(base, int(exponent), before)
    return [node]


def _products(base: dict[str, Any], exponent: int, before: int) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = []

    def product(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
        nodes.append({"op": "aten.mul.Tensor", "args": [a, b]})
        return {"ref": before + len(nodes)}

    value = base
    for bit in bin(exponent)[3:]:
        value = product(value, value)
        if bit == "1":
            value = product(value, base)
    return nodes
