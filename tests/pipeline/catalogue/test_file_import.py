"""Importing a catalogue file: every fault names the file, the line and the remedy."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.catalogue.file_import import import_file
from pipeline.catalogue.service import load_catalogue
from pipeline.errors import BadInput

ROW: dict[str, Any] = {
    "rank": 1, "model_id": "a/x", "downloads": 7, "likes": 3, "model_type": "bert", "architectures": ["BertModel"],
    "parameters": 11, "library": "sentence-transformers", "gated": True, "custom_code": False, "config_ref": "a/x",
    "config_confidence": "exact", "reason": None,
}  # fmt: skip
CONFIGS = {"a/x": {"config": {"model_type": "bert"}, "pooling": "cls", "normalize": None, "max_seq_length": 99}}


def _write(folder: Path, rows: list[Any], configs: Any = None) -> Path:
    path = folder / "catalogue.jsonl.gz"
    text = "\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows)
    path.write_bytes(gzip.compress(text.encode()))
    if configs is not None:
        (folder / "hub_configs.json").write_text(json.dumps(configs))
    return path


def test_a_row_and_its_config_become_an_entry(tmp_path: Path) -> None:
    (entry,) = import_file(_write(tmp_path, [ROW], CONFIGS))
    assert (entry.model_id, entry.rank, entry.downloads, entry.likes, entry.gated) == ("a/x", 1, 7, 3, True)
    assert (entry.config, entry.pooling, entry.normalize, entry.max_seq_length) == (
        {"model_type": "bert"},
        "cls",
        None,
        99,
    )
    assert not entry.dropped


def test_plain_text_is_read_too_and_rows_come_in_rank_order(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(
        "\n".join(json.dumps({**ROW, "model_id": f"a/{r}", "rank": r, "config_ref": None}) for r in (3, 1, 2))
    )
    assert [e.rank for e in import_file(path, top=2)] == [1, 2]
    assert [e.rank for e in load_catalogue(str(path))] == [1, 2, 3]


def test_a_row_without_config_is_kept_and_says_why(tmp_path: Path) -> None:
    rows = [
        {**ROW, "config_ref": None, "custom_code": True, "reason": "remote code"},
        {**ROW, "model_id": "a/y", "rank": 2, "config_ref": None},
    ]
    remote, other = import_file(_write(tmp_path, rows, CONFIGS))
    assert remote.dropped_kind == "remote_code"
    assert str(remote.dropped_reason).startswith("'a/x': remote code; its class BertModel is never executed")
    assert other.dropped_kind == "unknown_architecture"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([ROW, "{broken"], ("line 2", "not valid JSON", "correct or remove")),
        ([[1]], ("line 1", "one object per line")),
        ([{**ROW, "rank": "1"}], ("line 1", "rank is '1'", "must be a int")),
        ([{**ROW, "downloads": True}], ("line 1", "downloads is True")),
        ([{**ROW, "rank": 0}], ("line 1", "rank counts from 1")),
        ([{**ROW, "likes": "many"}], ("line 1", "likes is 'many'")),
        ([ROW, ROW], ("line 2", "already on line 1")),
        ([{**ROW, "config_ref": "b/y"}], ("line 1", "config_ref 'b/y'", "matching file")),
        ([], ("holds no rows",)),
    ],
)
def test_faulty_rows_are_named_with_line_and_remedy(tmp_path: Path, rows: list[Any], words: tuple[str, ...]) -> None:
    with pytest.raises(BadInput) as caught:
        import_file(_write(tmp_path, rows, CONFIGS))
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_truncated_archive_is_named(tmp_path: Path) -> None:
    path = _write(tmp_path, [{**ROW, "model_id": f"a/{n}"} for n in range(50)])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BadInput, match="truncated or not gzip"):
        import_file(path)


@pytest.mark.parametrize("content", ["[", "[1]", '{"a/x": {"pooling": "mean"}}'])
def test_a_faulty_configuration_file_is_named(tmp_path: Path, content: str) -> None:
    path = _write(tmp_path, [ROW])
    configs = tmp_path / "other.json"
    configs.write_text(content)
    with pytest.raises(BadInput, match=r"other\.json"):
        import_file(path, configs)


def test_a_missing_file_and_an_unknown_name_are_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        import_file(tmp_path / "none.jsonl")
    with pytest.raises(BadInput, match="is no catalogue"):
        load_catalogue("nowhere")
    with pytest.raises(BadInput, match="at least 1"):
        load_catalogue("starter", 0)
