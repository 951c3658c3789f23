"""The fetcher against a Hub that serves good models, bad models and no models at all."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.catalogue.hub import HubClient
from pipeline.catalogue.local_hub import Fault, HubModel, LocalHub
from pipeline.errors import BadInput, CheckpointProblem, EnvironmentProblem, NotFound
from pipeline.inspection import inspect_checkpoint
from pipeline.weights import download as download_module
from pipeline.weights.cache import DiskProblem, WeightsCache
from pipeline.weights.fetch import fetch

Serve = Callable[..., HubModel]
Stored = Callable[[], set[str]]


def _names(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def test_a_good_model_is_stored_with_what_a_child_needs_and_no_more(
    client: HubClient, cache: WeightsCache, serve: Serve, hub: LocalHub
) -> None:
    model = serve(files={"pytorch_model.bin": b"\x80", "modeling.py": b"raise SystemExit", "onnx/model.onnx": b"o"})
    found = fetch("a/x", cache=cache, client=client)
    assert found.revision == found.weights_revision == model.commit("main")
    assert found.path == cache.folder("a/x", found.revision)
    assert _names(found.path) == {"config.json", "vocab.txt", "model.safetensors", "fetched.json"}
    assert inspect_checkpoint(found.path).has_real_weights
    asked = {seen.path.rpartition("/")[2] for seen in hub.seen if "/resolve/" in seen.path}
    assert not {"pytorch_model.bin", "modeling.py", "model.onnx"} & asked


def test_module_folders_come_along(client: HubClient, cache: WeightsCache, serve: Serve, weights: Any) -> None:
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense")]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds)
    ]
    files = {
        "modules.json": json.dumps(modules).encode(),
        "1_Pooling/config.json": b'{"pooling_mode_mean_tokens": true}',
        "2_Dense/config.json": b'{"in_features": 8, "out_features": 4}',
        "2_Dense/model.safetensors": weights(4),
    }
    serve(files=files)
    assert set(files) <= _names(fetch("a/x", cache=cache, client=client).path)


def test_a_second_fetch_asks_the_hub_for_nothing(
    client: HubClient, cache: WeightsCache, serve: Serve, hub: LocalHub
) -> None:
    serve()
    first = fetch("a/x", cache=cache, client=client)
    hub.seen.clear()
    again = fetch("a/x", first.revision, cache=cache, client=client)
    assert again == replace(first, bytes_read=0, reused=True)
    assert hub.seen == []
    hub.stop()
    assert fetch("a/x", first.revision, cache=cache, client=client).reused


def test_two_fetches_at_once_transfer_the_weights_once(
    client: HubClient, cache: WeightsCache, serve: Serve, hub: LocalHub
) -> None:
    serve()
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: fetch("a/x", cache=cache, client=client), range(2)))
    assert sorted(f.reused for f in found) == [False, True]
    assert sum(seen.path.endswith("model.safetensors") for seen in hub.seen) == 1


PICKLE = {"model.safetensors": None, "pytorch_model.bin": b"\x80pickle"}


def test_pickle_only_takes_the_hubs_conversion_and_records_it(
    client: HubClient, cache: WeightsCache, serve: Serve, weights: Any, hub: LocalHub
) -> None:
    model = serve(files=PICKLE)
    model.refs["refs/pr/7"] = {**model.refs["main"], "model.safetensors": weights(40)}
    found = fetch("a/x", cache=cache, client=client)
    assert (found.conversion, found.revision) == ("refs/pr/7", model.commit("main"))
    assert found.weights_revision == model.commit("refs/pr/7")
    assert (found.path / "model.safetensors").read_bytes() == weights(40)
    record = json.loads((found.path / "fetched.json").read_text())
    assert (record["conversion"], record["weights_revision"]) == ("refs/pr/7", found.weights_revision)
    assert not any(seen.path.endswith(".bin") for seen in hub.seen)
    assert fetch("a/x", found.revision, cache=cache, client=client).conversion == "refs/pr/7"


@pytest.mark.parametrize(
    "change",
    [{}, {"author_of_refs": "somebody"}, {"changed": "pytorch_model.bin"}, {"changed": "config.json"}],
    ids=["none", "another author", "of other weights", "of another config"],
)
def test_pickle_only_without_a_conversion_of_the_same_bytes_is_pickle_weights(
    client: HubClient, cache: WeightsCache, serve: Serve, weights: Any, stored: Stored, change: dict[str, str]
) -> None:
    model = serve(files=PICKLE)
    if change:
        model.refs["refs/pr/1"] = {**model.refs["main"], "model.safetensors": weights(40)}
        model.author_of_refs = change.get("author_of_refs", model.author_of_refs)
        if "changed" in change:
            model.refs["refs/pr/1"][change["changed"]] = b"changed"
    with pytest.raises(CheckpointProblem, match="pickle") as caught:
        fetch("a/x", cache=cache, client=client)
    assert (caught.value.kind, stored()) == ("pickle_weights", set())


BAD: list[tuple[str, dict[str, bytes | None], dict[str, Any], str]] = [
    ("broken config", {"config.json": b"{broken"}, {}, "malformed"),
    ("no config", {"config.json": None}, {}, "malformed"),
    (
        "remote code",
        {"modeling_x.py": b"x"},
        {"model_type": "x", "auto_map": {"AutoModel": "modeling_x.X"}},
        "remote_code",
    ),
    ("unknown architecture", {}, {"model_type": "x"}, "unknown_architecture"),
    ("absurd size", {}, {"hidden_size": 10**9}, "too_large"),
    ("GGUF only", {"model.safetensors": None, "x.gguf": b"g"}, {}, "no_native_weights"),
    ("no weights", {"model.safetensors": None}, {}, "no_native_weights"),
    ("gated", {}, {"gated": "manual"}, "gated"),
    ("quantised", {}, {"quantization_config": {"quant_method": "awq"}}, "quantised"),
]


@pytest.mark.parametrize(("files", "changes", "kind"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_a_bad_model_has_its_kind_one_sentence_and_leaves_nothing(
    client: HubClient, cache: WeightsCache, serve: Serve, stored: Stored, hub: LocalHub,
    files: dict[str, bytes | None], changes: dict[str, Any], kind: str,
) -> None:  # fmt: skip
    serve(files=files, **changes)
    with pytest.raises(CheckpointProblem) as caught:
        fetch("a/x", cache=cache, client=client)
    assert (caught.value.kind, stored()) == (kind, set())
    assert str(caught.value).startswith("'a/x': ")
    assert "\n" not in str(caught.value)
    assert not any(seen.path.endswith("model.safetensors") for seen in hub.seen)


def test_weights_truncated_on_the_hub_are_malformed_and_leave_nothing(
    client: HubClient, cache: WeightsCache, serve: Serve, stored: Stored, weights: Any
) -> None:
    serve(files={"model.safetensors": weights(40)[:-100]})
    with pytest.raises(CheckpointProblem, match=r"'a/x': its model\.safetensors is truncated") as caught:
        fetch("a/x", cache=cache, client=client)
    assert (caught.value.kind, stored()) == ("malformed", set())


def test_an_unknown_model_and_a_bad_id_are_the_callers_fault(
    client: HubClient, cache: WeightsCache, stored: Stored
) -> None:
    with pytest.raises(NotFound, match="'a/none'"):
        fetch("a/none", cache=cache, client=client)
    with pytest.raises(BadInput, match="is not a model id"):
        cache.folder("../../etc", "0" * 40)
    with pytest.raises(BadInput, match="is not a commit"):
        cache.folder("a/x", "main")
    assert stored() == set()


@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.BUSY, Fault.UNAUTHORISED])
def test_faults_of_the_hub_are_environment_problems(
    client: HubClient, cache: WeightsCache, serve: Serve, hub: LocalHub, fault: Fault
) -> None:
    serve()
    hub.misbehave(fault, file="model.safetensors")
    with pytest.raises(EnvironmentProblem):
        fetch("a/x", cache=cache, client=client)
    hub.behave()
    assert fetch("a/x", cache=cache, client=client).path.is_dir()


def test_a_hub_that_is_down_is_an_environment_problem(
    client: HubClient, cache: WeightsCache, hub: LocalHub, stored: Stored
) -> None:
    hub.stop()
    with pytest.raises(EnvironmentProblem, match="cannot be reached"):
        fetch("a/x", cache=cache, client=client)
    assert stored() == set()


def test_a_broken_transfer_is_resumed_within_one_fetch(
    client: HubClient, cache: WeightsCache, serve: Serve, hub: LocalHub, weights: Any
) -> None:
    serve(files={"model.safetensors": weights(5000)})
    hub.misbehave(Fault.TRUNCATED, times=2, file="model.safetensors")
    found = fetch("a/x", cache=cache, client=client)
    assert (found.path / "model.safetensors").read_bytes() == weights(5000)
    assert sum(seen.path.endswith("model.safetensors") for seen in hub.seen) == 3


def test_a_transfer_that_keeps_breaking_is_resumed_by_the_next_fetch(
    client: HubClient, cache: WeightsCache, serve: Serve, hub: LocalHub, weights: Any, stored: Stored
) -> None:
    size = len(weights(5000))
    serve(files={"model.safetensors": weights(5000)})
    hub.misbehave(Fault.TRUNCATED, times=3, file="model.safetensors")
    with pytest.raises(EnvironmentProblem, match=r"model\.safetensors broke off"):
        fetch("a/x", cache=cache, client=client)
    assert not any(name.startswith("checkpoints/") for name in stored())
    found = fetch("a/x", cache=cache, client=client)
    assert (found.path / "model.safetensors").read_bytes() == weights(5000)
    assert 0 < found.bytes_read < size / 2
    assert not any(name.startswith("partial/") for name in stored())


def test_damaged_content_is_never_stored(
    client: HubClient, cache: WeightsCache, serve: Serve, hub: LocalHub, stored: Stored
) -> None:
    serve()
    for name in ("vocab.txt", "model.safetensors"):
        hub.misbehave(Fault.CORRUPT, file=name)
        with pytest.raises(EnvironmentProblem, match=f"{name} arrived damaged"):
            fetch("a/x", cache=cache, client=client)
        assert not any(n.startswith("checkpoints/") or n.endswith(name) for n in stored())
    hub.behave()
    assert fetch("a/x", cache=cache, client=client).path.is_dir()


def test_a_model_that_does_not_fit_the_cap_is_refused_before_the_transfer(
    client: HubClient, cache: WeightsCache, serve: Serve, hub: LocalHub
) -> None:
    serve()
    with pytest.raises(EnvironmentProblem, match="raise its cap"):
        fetch("a/x", cache=replace(cache, cap_bytes=100), client=client)
    assert not any(seen.path.endswith("model.safetensors") for seen in hub.seen)


def test_a_full_disk_before_the_transfer_leaves_nothing(
    client: HubClient, cache: WeightsCache, serve: Serve, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve()
    monkeypatch.setattr(WeightsCache, "_free", lambda self: 10)
    with pytest.raises(DiskProblem, match="free some space"):
        fetch("a/x", cache=cache, client=client)
    assert stored() == set()


def test_a_disk_that_fills_during_the_transfer_leaves_nothing(
    client: HubClient, cache: WeightsCache, serve: Serve, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    serve()
    monkeypatch.setattr(download_module.os, "fsync", full)
    with pytest.raises(DiskProblem, match="the disk is full"):
        fetch("a/x", cache=cache, client=client)
    monkeypatch.undo()
    assert stored() == set()


def test_the_token_goes_to_the_hub_only_when_there_is_one(cache: WeightsCache, serve: Serve, hub: LocalHub) -> None:
    hub.token = "hf_secret"
    serve(gated="auto")
    found = fetch("a/x", cache=cache, client=HubClient(hub.url, "hf_secret"))
    assert {seen.token for seen in hub.seen} == {"hf_secret"}
    assert not any("hf_secret" in p.read_text(errors="replace") for p in found.path.rglob("*") if p.is_file())
