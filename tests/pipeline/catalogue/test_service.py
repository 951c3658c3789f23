"""Keeping catalogues, rows as data, rows as folders, and the `catalog` commands."""

from __future__ import annotations

import hashlib
import json
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from agents.types import canonical
from pipeline.catalogue.entry import CatalogueEntry, entry_from_dict
from pipeline.catalogue.folder import materialise
from pipeline.catalogue.hub import HubClient
from pipeline.catalogue.local_hub import Fault, HubModel, LocalHub
from pipeline.catalogue.service import catalogue_digest, inspect_entry, refresh
from pipeline.catalogue.starter import find_starter, load_starter
from pipeline.catalogue.store import StoredCatalogue
from pipeline.cli import catalog
from pipeline.errors import CheckpointProblem, EnvironmentProblem
from pipeline.inspection import inspect_checkpoint


class MemoryStore:
    """A `CatalogueStore` in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, list[CatalogueEntry]] = {}

    def record_snapshot(
        self, source: str, digest: str, entries: Sequence[CatalogueEntry], taken_at: datetime
    ) -> StoredCatalogue:
        fresh = digest not in self.kept
        self.kept.setdefault(digest, list(entries))
        dropped = sum(e.dropped for e in entries)
        return StoredCatalogue(list(self.kept).index(digest) + 1, len(entries), dropped, fresh)

    def latest_entries(self, top: int | None = None) -> list[CatalogueEntry] | None:
        return list(self.kept.values())[-1][:top] if self.kept else None


def test_rows_survive_json_in_both_forms() -> None:
    for entry in load_starter():
        assert entry_from_dict(json.loads(json.dumps(entry.to_dict()))) == entry
        assert entry_from_dict(json.loads(json.dumps(entry.compact()))) == entry


def test_a_row_refuses_unknown_fields_and_half_a_drop() -> None:
    with pytest.raises(ValueError, match="unknown field 'rnak'"):
        entry_from_dict({"model_id": "a/x", "rnak": 1})
    with pytest.raises(ValueError, match="both a kind and a reason"):
        CatalogueEntry("a/x", 1, dropped_kind="gated")


def test_an_unpinned_row_is_named_by_what_it_says() -> None:
    entry = CatalogueEntry("a/x", 1, config={"hidden_size": 8})
    assert entry.identity == replace(entry, rank=9, downloads=3).identity
    assert entry.identity != replace(entry, config={"hidden_size": 16}).identity
    assert len(entry.identity) <= 64


def test_equal_catalogues_have_one_digest_and_are_kept_once(client: HubClient, serve: Callable[..., HubModel]) -> None:
    serve("a/x", downloads=3)
    store = MemoryStore()
    first, second = refresh(store, 5, client=client), refresh(store, 5, client=client)
    assert (first.fresh, second.fresh, first.snapshot_id) == (True, False, second.snapshot_id)
    assert catalogue_digest(load_starter()) == catalogue_digest(load_starter())


def test_a_failed_listing_keeps_nothing(client: HubClient, hub: LocalHub) -> None:
    store = MemoryStore()
    hub.misbehave(Fault.ERROR)
    with pytest.raises(EnvironmentProblem):
        refresh(store, 5, client=client)
    assert store.kept == {}


def test_a_row_becomes_a_folder_that_inspects_like_the_row(tmp_path: Path) -> None:
    for model_id in ("sentence-transformers/all-MiniLM-L6-v2", "BAAI/bge-small-en-v1.5", "Qwen/Qwen3-Embedding-0.6B"):
        entry = find_starter(model_id)
        assert entry is not None
        found = inspect_checkpoint(materialise(entry, tmp_path / "x"))
        expected = inspect_entry(entry)
        assert found.problem is None
        assert found.config_digest == expected.config_digest
        assert (found.chain.pooling, found.chain.normalize) == ((entry.pooling,), entry.normalize)
        assert found.chain.max_seq_length == entry.max_seq_length
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_a_dropped_row_has_no_folder(tmp_path: Path) -> None:
    dropped = next(e for e in load_starter() if e.dropped)
    with pytest.raises(CheckpointProblem) as caught:
        materialise(dropped, tmp_path / "x")
    assert caught.value.kind == dropped.dropped_kind
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_an_environment_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentProblem, match="cannot be written"):
        materialise(load_starter(1)[0], tmp_path / "file" / "x")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    module = types.ModuleType("memory_store_for_catalog")
    store = MemoryStore()
    module.open_store = lambda: store  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(catalog, "STORE", f"{module.__name__}:open_store")
    app = typer.Typer()
    catalog.register(app)
    return lambda *arguments: CliRunner().invoke(app, ["catalog", *arguments])


def test_list_prints_one_document(run: Callable[..., object]) -> None:
    result = run("list", "--top", "3", "--json")
    assert len(json.loads(result.stdout)["models"]) == 3
    assert "all-MiniLM-L6-v2" in run("list", "--top", "1").stdout


def test_import_keeps_a_snapshot_and_says_what(run: Callable[..., object], tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(json.dumps({"rank": 1, "model_id": "a/x", "downloads": 2}))
    document = json.loads(run("import", str(path), "--json").stdout)
    counted = {"entered": 0, "left": 0, "moved": 0}
    assert document == {"snapshot_id": 1, "listed": 1, "dropped": 1, "fresh": True, **counted}
    assert "already there" in run("import", str(path)).stdout


def test_faults_are_one_sentence_and_exit_code_1(run: Callable[..., object], tmp_path: Path) -> None:
    for result in (run("list", "--catalog", "nix"), run("import", str(tmp_path / "none"))):
        assert result.exit_code == 1
        assert result.stderr.count("\n") == 1


def test_refresh_lists_the_hub(
    run: Callable[..., object], serve: Callable[..., HubModel], hub: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    serve("a/x")
    assert json.loads(run("refresh", "--top", "4", "--json").stdout)["listed"] == 1
    hub.stop()
    result = run("refresh")
    assert (result.exit_code, "cannot be reached" in result.stderr) == (1, True)


def test_the_digest_is_that_of_all_rows_in_one_document() -> None:
    entries = [CatalogueEntry("a/x", 1, downloads=3), CatalogueEntry("a/y", 2)]
    whole = hashlib.sha256(canonical([entry.compact() for entry in entries])).hexdigest()
    assert catalogue_digest(entries) == whole
    assert catalogue_digest([]) == hashlib.sha256(b"[]").hexdigest()
