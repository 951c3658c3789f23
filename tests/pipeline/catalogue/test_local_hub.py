"""The local Hub server: what the real client and a browser see."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from huggingface_hub import HfApi, hf_hub_download

from pipeline.catalogue.hub import HubClient
from pipeline.catalogue.local_hub import Fault, HubModel, LocalHub, load_root, model_from_entry
from pipeline.catalogue.starter import find_starter

Serve = Callable[..., HubModel]


def test_the_real_client_downloads_a_file_by_revision(serve: Serve, hub: LocalHub, tmp_path: Path) -> None:
    model = serve("a/x", {"vocab.txt": b"one\ntwo\n"})
    path = hf_hub_download("a/x", "vocab.txt", endpoint=hub.url, cache_dir=tmp_path, token=False)
    assert Path(path).read_bytes() == b"one\ntwo\n"
    assert model.commit("main") in path


def test_the_real_client_lists_the_tree_and_pull_requests(serve: Serve, hub: LocalHub) -> None:
    model = serve("a/x")
    model.refs["refs/pr/3"] = {**model.refs["main"], "model.safetensors": b"converted"}
    api = HfApi(endpoint=hub.url, token=False)
    assert {f.path for f in api.list_repo_tree("a/x")} == {"config.json", "model.safetensors"}
    (pull,) = api.get_repo_discussions("a/x", author="SFconvertbot")
    assert pull.git_reference == "refs/pr/3"
    assert api.model_info("a/x", revision="refs/pr/3").sha == model.commit("refs/pr/3")


def test_headers_and_ranges_follow_the_hub(serve: Serve, hub: LocalHub) -> None:
    model = serve("a/x", {"model.safetensors": b"0123456789"})
    url = f"{hub.url}/a/x/resolve/main/model.safetensors"
    head = httpx2.head(url)
    assert head.headers["X-Repo-Commit"] == model.commit("main")
    assert head.headers["X-Linked-Size"] == head.headers["Content-Length"] == "10"
    assert len(head.headers["ETag"].strip('"')) == 64
    part = httpx2.get(url, headers={"Range": "bytes=3-5"})
    assert (part.status_code, part.content, part.headers["Content-Range"]) == (206, b"345", "bytes 3-5/10")
    assert httpx2.get(url, headers={"Range": "bytes=3-"}).content == b"3456789"
    assert httpx2.get(url, headers={"Range": "bytes=10-"}).status_code == 416


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/models/a/none", 404, "RepoNotFound"),
        ("/api/models/a/x/revision/none", 404, "RevisionNotFound"),
        ("/a/x/resolve/main/none", 404, "EntryNotFound"),
        ("/a/x/resolve/main/../../secret", 404, None),
        ("/api/spaces", 404, None),
    ],
)
def test_what_is_not_there_is_refused_with_the_hubs_code(
    serve: Serve, hub: LocalHub, path: str, status: int, code: str | None
) -> None:
    serve("a/x")
    answer = httpx2.get(hub.url + path)
    assert (answer.status_code, answer.headers.get("X-Error-Code")) == (status, code)


def test_faults_can_be_limited_in_number_and_to_a_model(serve: Serve, hub: LocalHub) -> None:
    serve("a/x")
    serve("a/y")
    hub.misbehave(Fault.ERROR, "a/x", times=1)
    codes = [httpx2.get(f"{hub.url}/api/models/{name}").status_code for name in ("a/y", "a/x", "a/x")]
    assert codes == [200, 503, 200]


def test_a_push_moves_main_and_leaves_the_commit_before(serve: Serve, hub: LocalHub) -> None:
    before = serve("a/x", {"config.json": b"{}"})
    hub.add(before.pushed({"config.json": b"[]"}))
    api = HfApi(endpoint=hub.url, token=False)
    first, newest = before.commit("main"), api.model_info("a/x").sha
    assert newest != first
    assert api.model_info("a/x", revision=first).sha == first
    for revision, content in ((first, b"{}"), (newest, b"[]"), ("main", b"[]")):
        assert httpx2.get(f"{hub.url}/a/x/resolve/{revision}/config.json").content == content


def test_filters_sort_and_expand_of_the_listing(serve: Serve, hub: LocalHub) -> None:
    serve("a/x", downloads=1, likes=9, tags=("blue",))
    serve("b/y", downloads=2, likes=1)
    api = HfApi(endpoint=hub.url, token=False)
    assert [m.id for m in api.list_models(sort="likes")] == ["a/x", "b/y"]
    assert [m.id for m in api.list_models(sort="downloads")] == ["b/y", "a/x"]
    assert [m.id for m in api.list_models(author="a")] == ["a/x"]
    assert [m.id for m in api.list_models(search="Y")] == ["b/y"]
    assert [m.id for m in api.list_models(filter="blue")] == ["a/x"]
    (only,) = api.list_models(author="a", expand=["likes"])
    assert (only.likes, only.downloads) == (9, None)


def test_a_folder_of_models_is_served(tmp_path: Path) -> None:
    folder = tmp_path / "org" / "name"
    (folder / ".hub" / "refs" / "pr" / "1").mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "bert"}')
    (folder / ".hub" / "meta.json").write_text(json.dumps({"downloads": 12, "gated": "auto"}))
    (folder / ".hub" / "refs" / "pr" / "1" / "model.safetensors").write_bytes(b"x")
    (model,) = load_root(tmp_path)
    assert (model.model_id, model.downloads, model.gated) == ("org/name", 12, "auto")
    assert set(model.refs["main"]) == {"config.json"}
    assert set(model.refs["refs/pr/1"]) == {"config.json", "model.safetensors"}


def test_a_catalogue_row_is_served_as_a_config_only_model(hub: LocalHub, client: HubClient) -> None:
    entry = find_starter("sentence-transformers/all-MiniLM-L6-v2")
    assert entry is not None
    hub.add(model_from_entry(entry))
    (row,) = client.list_top(1)
    assert (row.model_id, row.downloads, row.parameters) == (entry.model_id, entry.downloads, entry.parameters)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_its_endpoint_and_ends_when_told(tmp_path: Path, online: None, number: int) -> None:
    command = [sys.executable, "-m", "pipeline.catalogue.local_hub", "--root", str(tmp_path), "--starter"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        assert child.stdout is not None
        url = child.stdout.readline().strip()
        assert len(HubClient(url).list_top(3)) == 3
    finally:
        child.send_signal(number)
        child.communicate(timeout=30)
    assert child.returncode == 0


def test_a_busy_port_is_one_sentence(hub: LocalHub) -> None:
    port = hub.url.rpartition(":")[2]
    command = [sys.executable, "-m", "pipeline.catalogue.local_hub", "--port", port]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "choose another" in result.stderr
