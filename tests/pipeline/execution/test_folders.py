"""Where a checkpoint's files come from: the package, the Hub, or the catalogue's facts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import huggingface_hub.constants
import pytest

from pipeline.catalogue.local_hub import LocalHub, model_from_entry
from pipeline.catalogue.starter import find_starter
from pipeline.errors import BadInput, CheckpointProblem
from pipeline.execution.folders import checkpoint_folder, packaged_folder
from pipeline.inspection import Inspection

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
ALBERT = "sentence-transformers/paraphrase-albert-small-v2"


def spec(model: str, root: Path, **more: Any) -> dict[str, Any]:
    return {"model": model, "data_dir": str(root), **more}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    minilm, albert = find_starter(MINILM), find_starter(ALBERT)
    packaged = packaged_folder(MINILM)
    assert minilm and albert and packaged  # noqa: PT018
    files = {str(p.relative_to(packaged)): p for p in packaged.rglob("*") if p.is_file()}
    with LocalHub([model_from_entry(minilm, files), model_from_entry(albert)]) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        yield running
        huggingface_hub.close_session()


def test_a_given_folder_is_used_as_it_is(tmp_path: Path) -> None:
    assert checkpoint_folder(spec("x", tmp_path, checkpoint_dir=str(tmp_path))) == tmp_path


def test_a_packaged_checkpoint_is_found_unless_synthetic_weights_are_asked_for(tmp_path: Path) -> None:
    assert checkpoint_folder(spec(MINILM, tmp_path)) == packaged_folder(MINILM)
    synthetic = checkpoint_folder(spec(MINILM, tmp_path, weights="synthetic"))
    assert synthetic.is_relative_to(tmp_path)
    assert not list(synthetic.glob("*.safetensors"))


def test_a_starter_model_gets_a_folder_with_its_configuration(tmp_path: Path) -> None:
    folder = checkpoint_folder(spec(ALBERT, tmp_path))
    assert json.loads((folder / "config.json").read_text())["hidden_act"] == "gelu_new"


def test_an_unknown_model_is_bad_input_that_names_the_remedies(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="'no/such' is in no catalogue here: give its folder"):
        checkpoint_folder(spec("no/such", tmp_path))


def test_weights_come_from_the_hub_where_they_are_asked_for(tmp_path: Path, hub: LocalHub) -> None:
    folder = checkpoint_folder(spec(MINILM, tmp_path, weights="hub"))
    assert folder.is_relative_to(tmp_path / "weights")
    packaged = packaged_folder(MINILM)
    assert packaged is not None
    assert (folder / "model.safetensors").stat().st_size == (packaged / "model.safetensors").stat().st_size


def test_a_hub_model_without_weights_becomes_a_configuration_unless_weights_are_demanded(
    tmp_path: Path, hub: LocalHub
) -> None:
    from pipeline.catalogue.hub import hub_client

    entry = next(e for e in hub_client().list_top(10) if e.model_id == ALBERT)
    folder = checkpoint_folder(spec(ALBERT, tmp_path, entry=entry.to_dict()))
    assert (folder / "config.json").is_file()
    with pytest.raises(CheckpointProblem) as caught:
        checkpoint_folder(spec(ALBERT, tmp_path, weights="hub"))
    assert caught.value.kind == "no_native_weights"


def test_a_branch_that_moves_meanwhile_gives_files_of_one_commit(
    tmp_path: Path, hub: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = hub.router.models[MINILM]

    def push_after(found: Inspection, **_: bool) -> Inspection:
        hub.add(before.pushed({"README.md": b"of another day"}))
        return found

    monkeypatch.setattr("pipeline.execution.folders.require_usable", push_after)
    folder = checkpoint_folder(spec(MINILM, tmp_path, weights="hub"))
    record = json.loads((folder / "fetched.json").read_text())
    assert record["revision"] == before.commit("main")
