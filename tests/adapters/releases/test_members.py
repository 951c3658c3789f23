"""An adapter for several families of one mathematics: one file; each model gets exactly what was verified for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from adapters import adapt, find
from adapters.describe import describe, matches
from adapters.errors import AdapterWithdrawn, ManifestRefused, PatchTargetMoved
from adapters.releases import lookup
from adapters.releases.bundle import locked_digests
from adapters.releases.manifest import Manifest, load_manifest, manifest_from_dict, merged, record_digests
from pipeline.execution.subject import adapter_for

SHARED: list[dict[str, Any]] = [
    {"pattern": "P61", "parameters": {}, "drafter": "rules"},
    {"pattern": "P80", "parameters": {"placement": "host"}, "drafter": "rules"},
]
POSITIONS = {"pattern": "P32", "parameters": {"placement": "host"}, "drafter": "rules"}
CPU: dict[str, Any] = {"device": "cpu", "compile": False}


def manifest_of(model: nn.Module, family: str, patches: list[dict[str, Any]]) -> Manifest:
    recorded = tuple(record_digests(model, patches))
    return Manifest(family, "1", family, "profile-2026-08", describe(model), recorded, evidence=(family,))


@pytest.fixture
def adapter(make_model: Callable[[str], nn.Module]) -> Iterator[Manifest]:
    parts = [
        manifest_of(make_model("bert"), "bert-like", SHARED),
        manifest_of(make_model("roberta"), "by-id", [POSITIONS, *SHARED]),
    ]
    found = merged("encoders", parts)
    lookup.use_manifest(found)
    yield found
    lookup.forget_manifest(found)


def test_equal_patches_are_written_once(adapter: Manifest) -> None:
    assert [p["pattern"] for p in adapter.patches] == ["P61", "P80", "P32"]
    assert adapter.families == ("bert-like", "by-id")
    assert adapter.evidence == ("bert-like", "by-id")


@pytest.mark.parametrize(("family", "patterns"), [("bert", ["P61", "P80"]), ("roberta", ["P32", "P61", "P80"])])
def test_each_model_gets_the_patches_of_its_family_in_their_order(
    adapter: Manifest, make_model: Callable[[str], nn.Module], family: str, patterns: list[str]
) -> None:
    model = make_model(family)
    found = find(model)
    assert found == adapter
    with adapt(model, **CPU) as handle:
        report = handle.report()
    assert [p["pattern"] for p in report["patches"]] == patterns
    assert report["adapter"]["digest"] == adapter.digest
    assert len(report["evidence"]) == 1


def test_a_model_of_no_member_gets_nothing(adapter: Manifest, make_model: Callable[[str], nn.Module]) -> None:
    distilbert = make_model("distilbert")
    assert find(distilbert, bundled=False) is None
    with pytest.raises(ManifestRefused, match="bert-like, by-id"):
        adapt(distilbert, manifest=adapter, **CPU)


def test_a_member_is_bound_to_its_own_sources(adapter: Manifest, make_model: Callable[[str], nn.Module]) -> None:
    first, second = adapter.members
    swapped = {**first, "patches": [second["patches"][1], *first["patches"][1:]]}
    moved = replace(adapter, members=(swapped, second))
    if first["patches"][0]["target_digest"] == second["patches"][1]["target_digest"]:
        pytest.fail("the two families' blocks have one source: the test proves nothing")
    with pytest.raises(PatchTargetMoved):
        adapt(make_model("bert"), manifest=moved, **CPU)


def test_a_withdrawn_adapter_is_refused_for_each_family(
    adapter: Manifest, make_model: Callable[[str], nn.Module]
) -> None:
    lookup.withdraw_adapters({adapter.digest: "wrong"})
    try:
        with pytest.raises(AdapterWithdrawn, match="wrong"):
            adapt(make_model("bert"), manifest=adapter, **CPU)
    finally:
        del lookup._withdrawn[adapter.digest]


def test_the_file_and_the_lock_hold_every_member(adapter: Manifest, tmp_path: Path) -> None:
    path = tmp_path / "encoders.json"
    path.write_text(json.dumps(adapter.to_dict()))
    assert load_manifest(path) == adapter
    assert len(locked_digests(adapter)["patches"]) == 5
    plain = adapter_for(adapter.to_dict(), "by-id")
    assert plain is not None
    assert [p["pattern"] for p in plain["patches"]] == ["P32", "P61", "P80"]
    assert manifest_from_dict(plain) == adapter.for_family("by-id")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d["members"][0]["patches"].append({"patch": 9}), "not there"),
        (lambda d: d["members"][0].pop("buckets"), "exactly"),
        (lambda d: d["members"].pop(), "predicate"),
        (lambda d: d["members"][0]["patches"][0].update(target_digest="0"), "digest"),
    ],
)
def test_broken_members_are_refused(adapter: Manifest, change: Callable[[Any], Any], says: str) -> None:
    data = adapter.to_dict()
    change(data)
    with pytest.raises(ManifestRefused, match=says):
        manifest_from_dict(data)


def test_profiles_are_not_merged(adapter: Manifest) -> None:
    with pytest.raises(ManifestRefused, match="profiles"):
        merged("mixed", [adapter.for_family("by-id"), replace(adapter, profile="profile-2026-09")])


def test_without_a_profile_the_default_one_s_adapter_is_found(
    make_model: Callable[[str], nn.Module], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model("bert")
    usual = manifest_of(model, "encoders", SHARED)
    later = replace(usual, name="encoders-2026-09", profile="profile-2026-09")
    for manifest in (usual, later):
        (tmp_path / f"{manifest.name}.json").write_text(json.dumps(manifest.to_dict()))
    monkeypatch.setattr(lookup, "files", lambda _package: tmp_path)
    assert find(model) == usual
    assert find(model, profile="profile-2026-09") == later
    assert find(model, profile="profile-2026-04") is None


def test_any_is_one_of_several_predicates_and_nothing_beside() -> None:
    assert matches({"any": [{"norm": "pre"}, {"norm": "post"}]}, {"norm": "post"})
    assert not matches({"any": [{"norm": "pre"}]}, {"norm": "post"})
    assert not matches({"any": [{"norm": "post"}], "head_dim": 3}, {"norm": "post"})
