"""The bundled starter catalogue: what it promises to hold."""

from __future__ import annotations

import json
from importlib.resources import files

from pipeline.catalogue.entry import CatalogueEntry
from pipeline.catalogue.service import inspect_entry, load_catalogue
from pipeline.catalogue.starter import find_starter, load_starter
from pipeline.catalogue.starter_build import MODEL_TYPES, SMALL, build
from pipeline.inspection.sizes import estimate_parameters

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
ALBERT = "sentence-transformers/paraphrase-albert-small-v2"


def test_it_holds_60_to_100_models_each_once() -> None:
    entries = load_starter()
    assert 60 <= len(entries) <= 100
    assert len({e.model_id for e in entries}) == len(entries)
    assert sorted(e.order for e in entries) == list(range(1, len(entries) + 1))


def test_it_holds_every_model_type_the_adapters_are_planned_for() -> None:
    assert set(MODEL_TYPES) <= {e.model_type for e in load_starter()}


def test_a_sweep_begins_with_minilm_then_albert_then_small_models() -> None:
    first = load_starter(12)
    assert [e.model_id for e in first[:2]] == [MINILM, ALBERT]
    for entry in first:
        assert entry.config is not None
        assert (entry.parameters or estimate_parameters(entry.config) or 0) <= SMALL


def test_the_most_downloaded_models_are_there() -> None:
    ranks = {e.rank for e in load_starter()}
    assert set(range(1, 51)) <= ranks


def test_every_entry_has_a_usable_config_or_says_why_not() -> None:
    for entry in load_starter():
        found = inspect_entry(entry)
        assert (found.problem is not None) == entry.dropped, entry.model_id
        if entry.dropped:
            assert entry.dropped_reason
        else:
            assert found.native_class
            assert found.config_digest
            assert entry.pooling
            assert entry.max_seq_length


def test_configs_hold_the_published_values() -> None:
    albert, minilm = find_starter(ALBERT), find_starter(MINILM)
    assert albert is not None
    assert albert.config is not None
    assert (albert.config["hidden_act"], albert.config["hidden_size"], albert.config["embedding_size"]) == (
        "gelu_new",
        768,
        128,
    )
    assert minilm is not None
    assert (minilm.rank, minilm.parameters, minilm.max_seq_length, minilm.normalize) == (1, 22713728, 256, True)


def test_estimated_sizes_agree_with_published_ones() -> None:
    known = [(e.parameters, estimate_parameters(e.config)) for e in load_starter() if e.parameters and e.config]
    close = [p for p, estimate in known if estimate and abs(estimate / p - 1) < 0.15]
    assert len(close) >= 0.9 * len(known)


def test_the_file_names_no_place_of_the_machine_that_made_it() -> None:
    text = files("pipeline.catalogue").joinpath("starter.json").read_text(encoding="utf-8")
    assert not any(word in text for word in ("/work", "/root", "/home", "provenance"))
    assert set(json.loads(text)) == {"format", "about", "entries"}


def test_building_takes_the_best_known_config_of_a_missing_type() -> None:
    common = [CatalogueEntry(f"a/b{n}", n, model_type="bert", config={"hidden_size": 8}) for n in range(1, 51)]
    guessed = CatalogueEntry("a/guess", 51, model_type="albert", config={}, config_confidence="inferred")
    exact = CatalogueEntry("a/exact", 52, model_type="albert", config={}, config_confidence="exact")
    chosen = build([*common, guessed, exact])
    assert [e.model_id for e in chosen if e.model_type == "albert"] == ["a/exact"]


def test_top_takes_the_head_of_the_sweep() -> None:
    assert [e.model_id for e in load_catalogue("starter", 2)] == [MINILM, ALBERT]
