"""Rare kinds of input: the first block of a class is compared, nothing is called drift, what cannot run is left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch

from adapters.errors import ShapeRefused
from agents.types import Failure, FailureKind
from pipeline.diagnosis.wrong_values import search
from pipeline.diagnosis.wrong_values.blocks import BlockCall, Untraceable
from pipeline.diagnosis.wrong_values.boundaries import Boundary
from pipeline.diagnosis.wrong_values.compare import Difference
from pipeline.diagnosis.wrong_values.device_runs import Refused
from pipeline.diagnosis.wrong_values.findings import Finding
from pipeline.diagnosis.wrong_values.search import all_seeing
from pipeline.execution.diagnose_run import input_variants, rare_variants
from tests.adapters.patches.families import family

RIGHT, WRONG = Difference(0.001, 0.001), Difference(0.5, 0.001)


class Config:
    """As much of a configuration as the inputs need."""

    vocab_size, max_position_embeddings = 50, 96

    def get_text_config(self) -> Config:
        return self


class Model(torch.nn.Module):
    """A table and two blocks; more than 96 tokens cannot be run."""

    def __init__(self) -> None:
        super().__init__()
        self.config = Config()
        self.table = torch.nn.Embedding(50, 4)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)])

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        if input_ids.shape[1] > 130:
            raise ShapeRefused("200 tokens, the model has positions for 130")
        hidden = self.table(input_ids) * attention_mask.unsqueeze(-1)
        for layer in self.layers:
            hidden = layer(hidden)
        return hidden


def searched(
    monkeypatch: pytest.MonkeyPatch,
    rare: dict[str, dict[str, torch.Tensor]],
    usual: dict[str, dict[str, torch.Tensor]] | None = None,
    refused: str = "",
) -> search.Search:
    """Device values are wrong wherever the first token is padding, the block `refused` is; nothing starts a device."""

    def compared(calls: Sequence[BlockCall], real: torch.Tensor | None) -> Iterator[Boundary]:
        left = real is not None and not bool(real[:, 0].all())
        for call in calls:
            if call.path == refused:
                raise Refused(torch._dynamo.exc.BackendCompilerFailed("spyre", RuntimeError("no aten.isinf"), None))
            yield Boundary(call, WRONG if left else RIGHT, 0.02, 0.001, None)  # far enough off to drift

    def no_graph(_call: BlockCall) -> Any:
        raise Untraceable("not here")

    monkeypatch.setattr(search, "boundaries", compared)
    monkeypatch.setattr(search, "graph_of", no_graph)
    monkeypatch.setattr(search, "outside_modules", lambda *_: {})
    monkeypatch.setattr(search, "bad_reference", lambda *_: None)
    model = Model()
    return search.silent_causes(model, [(f"layers.{n}", m) for n, m in enumerate(model.layers)], usual or {}, rare)


def test_a_block_that_the_device_refuses_is_noted_with_its_kind_of_input_and_the_device_s_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual, rare = input_variants(Config()), rare_variants(Model())
    found = searched(monkeypatch, {"single": rare["single"]}, {"whole": usual["whole"]}, "layers.1")
    assert found.unsearched == [("whole", "layers.1", "no aten.isinf")]
    assert [point["block"] for point in found.curves["whole"]] == ["layers.0"]
    found = searched(monkeypatch, {"single": rare["single"]}, refused="layers.0")
    assert found.unsearched == [("single", "layers.0", "no aten.isinf")]


def test_what_is_wrong_with_padding_on_the_left_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found = searched(monkeypatch, rare_variants(Model())).findings
    assert [(f.failure.op, f.evidence["variant"], f.failure.layers) for f in found] == [("block", "left", 1)]


def test_nothing_is_drift_and_what_the_host_cannot_run_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rare = rare_variants(Model())
    del rare["left"]
    too_long = {"input_ids": torch.ones(1, 200, dtype=torch.int64), "attention_mask": torch.ones(1, 200)}
    assert searched(monkeypatch, {**rare, "too long": too_long}).findings == []


def test_kinds_of_input_pad_where_they_say() -> None:
    usual, rare = input_variants(Config()), rare_variants(Model())
    masks = {name: given["attention_mask"] for name, given in {**usual, **rare}.items()}
    assert masks["whole"].tolist() == [[1] * 128, [1] * 96 + [0] * 32]
    assert masks["left"].tolist() == [[1] * 128, [0] * 80 + [1] * 48]
    assert masks["long"].tolist() == [[1] * 96]
    assert masks["single"].tolist() == [[1]]
    assert all(bool((given["input_ids"] < 50).all()) for given in {**usual, **rare}.values())


def test_texts_of_whole_sticks_are_no_longer_than_the_learned_positions() -> None:
    tower = family("clip_text_model")
    assert input_variants(tower.config, 200)["whole"]["input_ids"].shape[1] == 128
    assert input_variants(tower.config, 77)["whole"]["input_ids"].shape[1] == 64
    tower.embeddings.position_embedding = torch.nn.Embedding(77, 64)
    assert rare_variants(tower)["left"]["input_ids"].shape[1] == 64


def test_no_token_is_left_that_sees_nothing() -> None:
    causal = torch.ones(3, 3).tril().bool() & torch.tensor([False, True, True])  # the first token is padding
    additive = torch.zeros(3, 3).masked_fill(~causal, -1e9)
    call = BlockCall("layers.0", torch.nn.ReLU(), (causal,), {"mask": additive, "scale": 2}, torch.zeros(3))
    seeing = all_seeing(call)
    assert seeing.args[0].tolist() == [[True] * 3, [False, True, False], [False, True, True]]
    assert seeing.kwargs["mask"].tolist() == [[0.0] * 3, [-1e9, 0.0, -1e9], [-1e9, 0.0, 0.0]]
    assert seeing.kwargs["scale"] == 2


def finding(condition: str) -> Finding:
    failure = Failure(FailureKind.WRONG_VALUES, "aten.gelu.default", "m.py:1", "layers.*", "", scalars=(condition,))
    return Finding(failure)


def test_one_token_does_not_contradict_what_longer_inputs_showed() -> None:
    length, always, layout = finding("length"), finding("value"), finding("layout")
    assert search._not_contradicting((length,), (always,)) == (length,)
    assert search._not_contradicting((length,), (layout,)) == (layout,)
    assert search._not_contradicting(None, (always,)) == (always,)
    assert search._not_contradicting((length,), ()) == ()
