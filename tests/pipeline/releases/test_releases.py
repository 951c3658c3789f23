"""Which adapter serves a checkpoint, and what becomes of the bundled ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import Session

from pipeline.catalogue.entry import CatalogueEntry
from pipeline.releases import repository
from pipeline.releases.errors import ManifestUnreadable, UnknownAdapter
from pipeline.releases.matching import family_of, head_size, matches
from pipeline.releases.models import AdapterState
from pipeline.releases.service import bundled_manifests, manifest_digest, matching_adapter, sync_bundled
from pipeline.sweeps.catalogue import store_snapshot
from pipeline.sweeps.models import Checkpoint

BERT = {"model_type": "bert", "hidden_size": 384, "num_attention_heads": 12, "hidden_act": "gelu"}


def manifest(family: str, **over: Any) -> dict[str, Any]:
    patches = [{"pattern": "P20", "parameters": {"head_dim": 32}, "drafter": "rules"}]
    base = {"format": 1, "name": family, "version": "1", "family": family, "profile": "profile-2026-08"}
    return {**base, "predicate": {"head_dim": 32}, "patches": patches, "digest": "recorded", **over}


def test_depth_and_width_do_not_make_a_family() -> None:
    deeper = {**BERT, "num_hidden_layers": 24, "vocab_size": 5}
    wider = {**BERT, "hidden_size": 768, "num_attention_heads": 24}
    assert family_of(BERT) == family_of(deeper) == family_of(wider)


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_act": "gelu_new"},
        {"num_attention_heads": 6},
        {"model_type": "roberta"},
        {"position_embedding_type": "relative_key"},
        {"num_key_value_heads": 4},
    ],
)
def test_what_changes_the_modules_changes_the_family(change: dict[str, Any]) -> None:
    assert family_of({**BERT, **change}) != family_of(BERT)


def test_head_size_is_stated_or_computed() -> None:
    assert head_size({"head_dim": 128, "hidden_size": 10}) == 128
    assert head_size({"d_kv": 64}) == 64
    assert head_size(BERT) == 32
    assert head_size({}) is None


def test_predicates_admit_what_they_name_and_an_empty_one_nothing() -> None:
    assert matches({"families": ["f"]}, "f", None)
    assert not matches({"families": ["f"]}, "g", BERT)
    assert matches({"config": {"head_size": 32, "hidden_act": ["gelu", "relu"]}}, None, BERT)
    assert matches({"config": {"hidden_size": {"min": 64, "max": 384}}}, None, BERT)
    assert not matches({"config": {"hidden_size": {"max": 100}}}, None, BERT)
    assert not matches({"config": {"absent": {"min": 1}}}, None, BERT)
    assert not matches({}, "f", BERT)


def test_bundled_adapters_are_rows_and_gone_ones_are_withdrawn(session: Session) -> None:
    assert sync_bundled(session, [manifest("a"), manifest("b")]) == 2
    assert sync_bundled(session, [manifest("a")]) == 1
    states = {adapter.name: adapter.state for adapter in repository.list_adapters(session)}
    assert states == {"a": AdapterState.RELEASED, "b": AdapterState.WITHDRAWN}
    sync_bundled(session, [manifest("a"), manifest("b")])
    assert {adapter.state for adapter in repository.list_adapters(session)} == {AdapterState.RELEASED}
    assert len(repository.list_adapters(session)) == 2


def test_without_bundled_releases_none_serves(session: Session) -> None:
    entry = CatalogueEntry("a/one", 1, config=BERT)
    store_snapshot(session, "test", [entry])
    checkpoint = session.query(Checkpoint).one()
    sync_bundled(session, [manifest(family_of(BERT))])
    found = matching_adapter(session, checkpoint, "profile-2026-08", "bundled")
    assert found is not None
    assert found.origin == "bundled"
    assert matching_adapter(session, checkpoint, "profile-2026-08", "none") is None
    assert matching_adapter(session, checkpoint, "profile-2026-04", "bundled") is None


def test_the_digest_leaves_out_origin_and_evidence_only() -> None:
    base = manifest("a")
    assert manifest_digest(base) == manifest_digest({**base, "evidence": ["x"], "origin": "service"})
    assert manifest_digest(base) != manifest_digest({**base, "profile": "profile-2026-04"})


def test_a_manifest_that_cannot_be_used_is_one_sentence(tmp_path: Path, session: Session) -> None:
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(ManifestUnreadable, match=r"broken\.json"):
        bundled_manifests(tmp_path)
    with pytest.raises(ManifestUnreadable, match="patches"):
        sync_bundled(session, [{"name": "x", "profile": "p", "predicate": {}}])


def test_the_shipped_manifests_are_readable_and_complete(session: Session) -> None:
    shipped = bundled_manifests()
    assert sync_bundled(session, shipped) == len(shipped)
    assert all(json.dumps(adapter.manifest) for adapter in repository.list_adapters(session))


def test_an_unknown_adapter_is_one_sentence(session: Session) -> None:
    with pytest.raises(UnknownAdapter, match="no adapter 7"):
        repository.get_adapter(session, 7)
