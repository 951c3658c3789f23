"""Would a changed node run? Its operator on fake tensors of what it reads, against what the document says it gives."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from adapters.replay.arguments import references_of
from adapters.replay.errors import DocumentRefused
from adapters.replay.fake_run import HOST, Value, fake
from adapters.replay.fake_run import Section as FakeSection
from adapters.replay.operators import PURE, SURGERY
from pipeline.verification.mutants.sections import Document, Node, Section, constant_metas, replaced_nodes

Fit = Callable[[Section, int, Node], bool]
"""Section, number and new node → whether it would run there."""


def fit_of(document: Document) -> Fit:
    """The test for the nodes of one document."""
    if "nodes" in document:
        return lambda section, number, node: _module_runs(document, number, node)
    constants, graphs = constant_metas(document), document["graphs"]

    def runs(section: Section, number: int, node: Node) -> bool:
        if "call" in node:
            return [constants[n] for n in node["parameters"]] == graphs[node["call"]]["parameters"]
        return _node_runs(section, number, node)

    return runs


def _module_runs(document: Document, number: int, node: Node) -> bool:
    from adapters import errors
    from adapters.document import validate

    try:
        with _silent():
            validate({**document, "nodes": replaced_nodes(document["nodes"], number, node)})
    except errors.DocumentRefused:
        return False
    return True


def _node_runs(section: Section, number: int, node: Node) -> bool:
    table = SURGERY if section.name == "constants" else PURE
    with _silent(), FakeTensorMode(), torch.no_grad():
        read = set(references_of(node))
        given = enumerate(section.metas[: section.first + number])
        values = [Value(_fakes(m) if n in read else None, HOST) for n, m in given]
        try:
            FakeSection(section.name, table, values).run([node])
        except DocumentRefused:
            return False
    return True


def _fakes(out: Any) -> Any:
    return [fake(m) for m in out] if out and isinstance(out[0], list) else fake(out)


@contextmanager
def _silent() -> Iterator[None]:
    """torch logs every operator that refuses its fake arguments, with a traceback: here refusal is an answer."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
