"""One layer per kind finds what all layers find: five families at their default depth, every layer compiled."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn
from transformers import (
    BertConfig,
    BertModel,
    ModernBertConfig,
    ModernBertModel,
    MPNetConfig,
    MPNetModel,
    Qwen3Config,
    Qwen3Model,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from sim_backend import capability
from sim_backend.compiler import fake_model
from sim_backend.report import CapabilityReport, OpFailure

FAMILIES: dict[str, Callable[[], nn.Module]] = {
    "bert": lambda: BertModel(BertConfig()),
    "xlm-roberta": lambda: XLMRobertaModel(XLMRobertaConfig()),
    "mpnet": lambda: MPNetModel(MPNetConfig()),
    "modernbert": lambda: ModernBertModel(ModernBertConfig()),
    "qwen3": lambda: Qwen3Model(Qwen3Config(use_cache=False)),
}

DEPTHS = {"bert": 12, "xlm-roberta": 12, "mpnet": 12, "modernbert": 22, "qwen3": 32}


@pytest.fixture(autouse=True, scope="module")
def inductor_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Generated modules go to a folder of this test run."""
    patch = pytest.MonkeyPatch()
    patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
    yield
    patch.undo()


def report(family: str, blocks: list[str] | None = None) -> CapabilityReport:
    with torch.device("meta"):
        model = FAMILIES[family]().eval()
    mask = torch.ones(2, 24, dtype=torch.long)
    mask[1, 20:] = 0
    inputs = {"input_ids": torch.full((2, 24), 5), "attention_mask": mask}
    return capability(model, inputs, "profile-2026-08", dtype=torch.float16, blocks=blocks)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("family", FAMILIES)
def test_one_layer_per_kind_finds_what_every_layer_finds(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    per_kind = report(family)
    number = itertools.count()
    monkeypatch.setattr(fake_model, "structure_of", lambda block: next(number))  # no two blocks are of one kind
    full = report(family)
    assert full == per_kind  # failures, predictions, fallbacks with their counts and layers; the fingerprint; kernels
    assert next(number) == DEPTHS[family]
    assert full.failures
    assert {f.layers for f in full.predicted if f.place == "block"}


@pytest.mark.long
def test_one_graph_of_all_layers_meets_the_same_causes() -> None:
    """Graph form, design §5: only the borders of blocks (E-18) differ, of which one graph has a single one."""
    layers, graph = report("bert"), report("bert", ["encoder"])
    for group in ("failures", "fallbacks"):
        assert causes(getattr(graph, group)) == causes(getattr(layers, group))
    of_layers, of_graph = causes(layers.predicted), causes(graph.predicted)
    assert {c for c in of_layers if c[3] != "E-18"} == {c for c in of_graph if c[3] != "E-18"}
    assert [c[4] for c in of_layers if c[3] == "E-18"] == [12]
    assert [c[4] for c in of_graph if c[3] == "E-18"] == [1]


def causes(failures: tuple[OpFailure, ...]) -> set[tuple[str, str, str, str | None, int]]:
    """What a report says without the place it was met in."""
    return {(f.kind, f.op, f.source, f.predicted, f.count) for f in failures}
