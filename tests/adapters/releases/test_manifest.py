"""Manifests are read strictly, found by structure, and refuse to run when what they were verified on has moved."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from adapters import adapt, find
from adapters.describe import describe
from adapters.errors import ManifestRefused, PatchCodeChanged, PatchTargetMoved
from adapters.releases import lookup
from adapters.releases.manifest import Manifest, load_manifest, manifest_from_dict, record_digests

PATCHES: list[dict[str, Any]] = [
    {"pattern": "P20", "parameters": {"head_dim": 32, "padded_head_dim": 64}, "drafter": "rules"},
    {"pattern": "P63", "parameters": {"multiple": 64, "side": "right"}},
    {"pattern": "P40", "parameters": {"fill": "finfo_min_half"}},
    {"pattern": "P80", "parameters": {"placement": "host"}},
]
CPU: dict[str, Any] = {"device": "cpu", "compile": False}


def manifest_for(model: nn.Module, **changed: Any) -> Manifest:
    words = describe(model)
    predicate = {word: words[word] for word in ("block", "head_dim", "norm")}
    values = {"name": "tiny", "version": "1.0", "family": "tiny-32", "profile": "profile-2026-08"}
    patches = tuple(record_digests(model, PATCHES))
    return Manifest(**{**values, "predicate": predicate, "patches": patches, **changed})


@pytest.fixture
def offered() -> Iterator[Callable[[Manifest], Manifest]]:
    used: list[Manifest] = []

    def offer(manifest: Manifest) -> Manifest:
        lookup.use_manifest(manifest)
        used.append(manifest)
        return manifest

    yield offer
    for manifest in used:
        lookup.forget_manifest(manifest)


def test_a_manifest_survives_its_file(make_model: Callable[[str], nn.Module], tmp_path: Path) -> None:
    manifest = manifest_for(make_model("bert"), buckets=(64, 128), evidence=("a" * 64,))
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(manifest.to_dict()))
    assert load_manifest(path) == manifest


def test_digest_covers_behaviour_and_not_evidence(make_model: Callable[[str], nn.Module]) -> None:
    manifest = manifest_for(make_model("bert"))
    assert replace(manifest, evidence=("e",), origin="service").digest == manifest.digest
    for change in ({"version": "1.1"}, {"predicate": {"head_dim": 48}}, {"patches": manifest.patches[:1]}):
        assert replace(manifest, **change).digest != manifest.digest


BROKEN: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "format": (lambda d: d.update(format=2), "format"),
    "digest": (lambda d: d.update(digest="0" * 64), "digest"),
    "changed parameter": (lambda d: d["patches"][0]["parameters"].update(padded_head_dim=128), "digest"),
    "unknown field": (lambda d: d.update(code="import os"), "code"),
    "missing field": (lambda d: d.pop("patches"), "patches"),
    "unknown pattern": (lambda d: d["patches"][0].update(pattern="P00"), "unknown pattern"),
    "unknown parameter": (lambda d: d["patches"][0]["parameters"].update(x=1), "unknown parameters"),
    "no predicate": (lambda d: d.update(predicate={}), "predicate"),
    "origin": (lambda d: d.update(origin="mail"), "origin"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_manifest_is_refused(name: str, make_model: Callable[[str], nn.Module]) -> None:
    data = manifest_for(make_model("bert")).to_dict()
    breaking, reason = BROKEN[name]
    breaking(data)
    with pytest.raises(ManifestRefused, match=reason):
        manifest_from_dict(data)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"format": 1}'])
def test_a_file_that_is_no_manifest_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(ManifestRefused):
        load_manifest(path)
    with pytest.raises(ManifestRefused, match="no manifest at"):
        load_manifest(tmp_path / "none.json")


def test_lookup_by_config_alone(
    make_model: Callable[[str], nn.Module], offered: Callable[[Manifest], Manifest]
) -> None:
    model = make_model("bert")
    manifest = offered(manifest_for(model))
    assert find(model.config) == manifest
    assert find(model, profile="profile-2026-08") == manifest
    assert find(model, profile="profile-2026-04", bundled=False) is None
    assert find(make_model("roberta").config, bundled=False) is None


def test_the_last_loaded_adapter_is_looked_at_first(
    make_model: Callable[[str], nn.Module], offered: Callable[[Manifest], Manifest]
) -> None:
    model = make_model("bert")
    offered(manifest_for(model))
    newer = offered(manifest_for(model, version="2.0"))
    assert find(model) == newer


def test_bundled_manifests_are_sound() -> None:
    for manifest in lookup.bundled_manifests():
        assert manifest.origin == "bundled"


def test_adapt_finds_and_applies_its_adapter(
    make_model: Callable[[str], nn.Module],
    offered: Callable[[Manifest], Manifest],
    inputs: dict[str, torch.Tensor],
) -> None:
    model = make_model("bert")
    manifest = offered(manifest_for(model, evidence=("e" * 64,)))
    with torch.no_grad():
        stock = model(**inputs).last_hidden_state
    with adapt(model, **CPU) as handle:
        patched = model(**inputs).last_hidden_state
    report = handle.report()
    assert (report["adapter"]["name"], report["adapter"]["digest"]) == ("tiny", manifest.digest)
    assert report["evidence"] == ("e" * 64,)
    assert report["patches"][0]["drafter"] == "rules"
    real = inputs["attention_mask"].bool()
    assert torch.allclose(patched[real], stock[real], atol=1e-4)


def test_dtype_policy_names_the_run_s_dtype_where_no_patch_does(make_model: Callable[[str], nn.Module]) -> None:
    model = make_model("bert")
    manifest = manifest_for(model, dtype_policy={"run": "float16", "probe": "none"})
    with adapt(model, manifest=manifest, **CPU) as handle:
        assert handle.report()["dtype"] == "float16"
    with adapt(model, manifest=manifest, dtype="float64", **CPU) as handle:
        assert handle.report()["dtype"] == "float64"


@pytest.mark.parametrize(
    ("key", "error"), [("target_digest", PatchTargetMoved), ("digest", PatchCodeChanged)], ids=["target", "code"]
)
def test_a_moved_digest_refuses_and_changes_nothing(
    key: str, error: type[Exception], make_model: Callable[[str], nn.Module]
) -> None:
    model = make_model("bert")
    manifest = manifest_for(model)
    moved = ({**manifest.patches[0], key: "0" * 64}, *manifest.patches[1:])
    with pytest.raises(error, match="P20"):
        adapt(model, manifest=replace(manifest, patches=moved), **CPU)
    assert "forward" not in model.__dict__


def test_an_upgraded_attention_is_refused(make_model: Callable[[str], nn.Module]) -> None:
    model = make_model("bert")
    manifest = manifest_for(model)
    stock = type(model.encoder.layer[0].attention.self)

    class BertSelfAttention(stock):  # type: ignore[misc, valid-type]
        moved = True

    for layer in model.encoder.layer:
        layer.attention.self.__class__ = BertSelfAttention
    with pytest.raises(PatchTargetMoved, match="P20"):
        adapt(model, manifest=manifest, **CPU)
