"""The loop's families: every one stands for a stock model that can be made, and belongs to one adapter of few."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks import families
from benchmarks.families import adapter_names, as_line, entry_of, load_table, newest_of_each
from benchmarks.family_cases import Case, agreement, narrowed, window_of

MOST_ADAPTERS = 13


def test_every_family_belongs_to_exactly_one_of_few_adapters() -> None:
    members = [family for families in adapter_names().values() for family in families]
    assert sorted(members) == sorted(load_table())
    assert len(adapter_names()) <= MOST_ADAPTERS


@pytest.mark.parametrize(("family", "layers"), [("roberta", 2), ("mistral", 1), ("modernbert", 3), ("gemma3_text", 6)])
def test_a_family_s_model_has_two_layers_or_one_period_of_its_own_width(family: str, layers: int) -> None:
    entry = entry_of(family)
    assert entry.config["num_hidden_layers"] == layers
    assert entry.config["hidden_size"] >= 384
    assert entry.config["vocab_size"] <= 3000


def test_a_type_that_the_starter_catalogue_lacks_has_its_configuration_in_the_table() -> None:
    """Else its loop cannot begin: nothing of the catalogue says what the model is."""
    from pipeline.catalogue.starter import load_starter
    from pipeline.weights.synthetic.build import load_config

    listed = {(entry.config or {}).get("model_type") for entry in load_starter()}
    named = [name for name, row in load_table().items() if row["type"] not in listed]
    assert named == ["qwen2_5_omni_thinker"]
    config = load_config(entry_of(named[0]).config)
    assert (config.model_type, config.num_hidden_layers, config.hidden_size) == ("qwen2_5_omni_text", 2, 1024)


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_case_has_texts_of_every_length_and_padding_on_its_side(side: str) -> None:
    text = SimpleNamespace(vocab_size=50, pad_token_id=1)
    found = Case(8, 65, side).inputs(SimpleNamespace(get_text_config=lambda: text))
    mask = found["attention_mask"]
    assert mask.shape == (8, 65)
    assert int(mask[0].sum()) == 65
    assert len(set(mask.sum(1).tolist())) == 8
    edge = mask[-1, -1 if side == "right" else 0]
    assert int(edge) == 0
    assert bool((found["input_ids"][mask == 0] == 1).all())


def test_agreement_takes_the_worst_token_and_leaves_padding_out() -> None:
    mask = torch.tensor([[1, 1, 0]])
    expected = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]])
    same, turned = expected.clone(), expected.clone()
    same[0, 2] = -1
    turned[0, 1] = torch.tensor([1.0, 0.0])
    assert agreement(same, expected, mask) == pytest.approx((1.0, 1.0))
    assert agreement(turned, expected, mask)[0] == pytest.approx(0.0)
    assert agreement(turned * float("nan"), expected, mask) == (0.0, 0.0)


def test_windows_are_found_and_cut() -> None:
    def window(**fields: Any) -> int | None:
        text = SimpleNamespace(**fields)
        return window_of(SimpleNamespace(get_text_config=lambda: text))

    assert window(local_attention=128) == 64
    assert window(sliding_window=512, layer_types=["full_attention", "sliding_attention"]) == 512
    assert window(sliding_window=512, layer_types=["full_attention"]) is None
    assert narrowed({"sliding_window": 512, "local_attention": 128, "x": 1})["sliding_window"] == 64


def test_a_line_says_what_a_family_has_and_where_it_stops() -> None:
    refused = {"patches": {"P20": "rules"}, "state": "refused", "reason": "too far off", "fallbacks": {}}
    row = {
        "family": "bert", "profile": "profile-2026-08", "stock": {"outcome": "failed", "kinds": {"layout": 2}},
        "candidates": [refused], "adapted": None, "draft": None, "diagnosis": None,
        "cpu": {"capture": 1.6, "execute": 2.0},
    }  # fmt: skip
    line = as_line(row)
    assert all(word in line for word in ("bert", "layout", "P20(rules)", "refused", "too far off", "CPU 4 s"))


def test_after_its_time_no_further_stage_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    clock = iter([0.0, 4.0, 6.0])
    monkeypatch.setattr(families, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr("pipeline.database.unit_of_work.unit_of_work", nullcontext)
    monkeypatch.setattr("pipeline.work.repository.take_to_send", lambda *_: [len(begun) + 1])
    monkeypatch.setattr("pipeline.work.worker.work_on", begun.append)
    assert [run for run, _ in families.work(latest=5.0)] == begun == [1, 2]


def test_the_cpu_of_a_process_counts_while_it_lives_and_after() -> None:
    before = families.children_cpu()
    busy = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    child = subprocess.Popen([sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    assert families.children_cpu() - before >= 0.25
    child.communicate(b"\n")
    assert families.children_cpu() - before >= 0.25


def test_cpu_seconds_are_added_by_stage(tmp_path: Path) -> None:
    assert families.cpu_of(tmp_path, {}) == {}
    (tmp_path / families.CPU).write_text('{"run": 1, "cpu": 2.5}\n{"run": 1, "cpu": 1.0}\n{"run": 2, "cpu": 3.0}\n')
    assert families.cpu_of(tmp_path, {1: "verify", 2: "draft"}) == {"verify": 3.5, "draft": 3.0}


def test_an_adapter_has_a_name_of_its_own_on_another_profile() -> None:
    assert families.name_on("mpnet", families.PROFILE) == "mpnet"
    assert families.name_on("mpnet", "profile-2026-09") == "mpnet-2026-09"


def test_a_file_that_changes_gets_the_next_version(tmp_path: Path) -> None:
    from adapters.releases.lookup import bundled_manifests

    adapter, path = bundled_manifests()[0], tmp_path / "adapter.json"
    assert families.versioned(adapter, path) == adapter
    path.write_text(json.dumps(replace(adapter, version="4").to_dict()))
    assert families.versioned(replace(adapter, evidence=("another",)), path).version == "4"
    assert families.versioned(replace(adapter, buckets=(64,)), path).version == "5"


def test_of_candidates_of_one_family_the_newest_is_approved() -> None:
    waiting = [SimpleNamespace(id=n, family=family) for n, family in ((3, "a"), (1, "a"), (2, "b"))]
    assert newest_of_each(waiting) == [3, 2]


@pytest.mark.parametrize(
    ("made", "gone"),
    [({"head_dim": 26, "part_sticks": "312/600"}, True), ({"head_dim": 26}, False), ({"head_dim": 32, "x": 1}, False)],
)
def test_a_member_whose_family_was_told_apart_since_gives_way(made: dict[str, Any], gone: bool) -> None:
    before = SimpleNamespace(predicate={"head_dim": 26})
    assert families.superseded(before, [SimpleNamespace(predicate=made)]) is gone
