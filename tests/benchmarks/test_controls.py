"""Controls per family: each is caught on calibrated weights, or the family is listed as unknown, with its reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import controls
from benchmarks.controls import REAL, UNKNOWN, Row, as_text, cut_vocabulary, families, measure_family, measure_real

FAMILIES = families()


def test_only_families_of_the_catalogue_are_listed_as_unknown_and_each_says_why() -> None:
    assert set(UNKNOWN) <= set(FAMILIES)
    assert all(UNKNOWN.values())
    assert len(FAMILIES) > 40


def test_special_ids_beyond_a_cut_vocabulary_move_inside() -> None:
    cut = cut_vocabulary({"vocab_size": 50_000, "pad_token_id": 1, "eos_token_id": 49_999, "bos_token_id": 49_998})
    assert cut["vocab_size"] == controls.VOCABULARY
    assert cut["pad_token_id"] == 1
    assert {cut["bos_token_id"], cut["eos_token_id"]} == {1, 2}
    assert cut_vocabulary({"vocab_size": 400}) == {"vocab_size": 400}


def test_a_wide_model_has_fewer_heads_of_the_same_size() -> None:
    wide = {"hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14_336}
    narrow = controls.narrowed(wide)
    assert narrow == {
        "hidden_size": 1024,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "intermediate_size": 3584,
    }
    assert controls.narrowed({"hidden_size": 768, "num_attention_heads": 12}) == {
        "hidden_size": 768, "num_attention_heads": 12,
    }  # fmt: skip


def test_a_row_that_was_measured_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row, path = Row("bert", "org/m", "2", "caught", "", 0.9999, {}, 1.0, 384), tmp_path / "rows.jsonl"
    monkeypatch.setattr(controls, "measure_family", lambda *_: row)
    assert controls.measured("bert", FAMILIES["bert"], 2, path) == row
    assert controls.kept_rows(path) == {"bert": row}
    assert controls.kept_rows(None) == {}


def test_the_table_marks_a_control_that_was_missed() -> None:
    missed = {"applicable": True, "caught": False, "token_cosine": 0.9991, "centred_pooled_cosine": 0.9}
    absent = {"applicable": False, "broken": False, "detail": "no gated feed-forward"}
    row = Row("bert", "org/m", "full", "unknown", "controls not caught: x", 0.9999, {"x": missed, "glu": absent})
    _, line = as_text([row]).splitlines()
    assert "0.999!" in line
    assert line.split()[:5] == ["bert", "full", "0", "unknown", "0.9999"]
    assert "-" in line


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_control_of_a_family_is_caught_or_the_family_is_listed_as_unknown(family: str) -> None:
    row = measure_family(family, FAMILIES[family])
    assert (row.status == "unknown") is (family in UNKNOWN), json.dumps(row.__dict__)
    if row.status == "caught":
        assert any(c["applicable"] for c in row.controls.values())


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_real_minilm_stands_beside_them_with_every_control_caught() -> None:
    row = measure_real()
    assert (row.family, row.status) == (REAL, "caught")
