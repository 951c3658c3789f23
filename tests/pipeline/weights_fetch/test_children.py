"""Processes: the fetcher's child, the environment of model children, and a disk that is really full or read-only."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import adapters
import pipeline
from pipeline.catalogue.local_hub import Fault, HubModel, LocalHub
from pipeline.errors import CheckpointProblem, EnvironmentProblem, NotFound
from pipeline.weights.cache import WeightsCache
from pipeline.weights.children_env import children_env
from pipeline.weights.fetch_child import fetch_in_child, fetcher_env

Serve = Callable[..., HubModel]


def test_the_child_fetches_with_the_token_and_the_second_time_reuses(
    cache: WeightsCache, serve: Serve, hub: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.token = "hf_child"
    monkeypatch.setenv("HF_TOKEN", "hf_child")
    model = serve(gated="auto")
    found = fetch_in_child("a/x", cache_dir=cache.root)
    assert (found.revision, found.reused) == (model.commit("main"), False)
    assert {seen.token for seen in hub.seen} == {"hf_child"}
    assert fetch_in_child("a/x", found.revision, cache_dir=cache.root).reused


def test_errors_of_the_child_arrive_as_they_were(cache: WeightsCache, serve: Serve, hub: LocalHub) -> None:
    serve(model_type="x")
    with pytest.raises(CheckpointProblem, match="no class for model_type 'x'") as caught:
        fetch_in_child("a/x", cache_dir=cache.root)
    assert caught.value.kind == "unknown_architecture"
    with pytest.raises(NotFound, match="'a/none'"):
        fetch_in_child("a/none", cache_dir=cache.root)
    hub.stop()
    with pytest.raises(EnvironmentProblem, match="cannot be reached"):
        fetch_in_child("a/x", cache_dir=cache.root)


def test_a_child_that_takes_too_long_is_ended(cache: WeightsCache, serve: Serve, hub: LocalHub) -> None:
    serve()
    hub.delay_s = 60.0
    hub.misbehave(Fault.SLOW)
    with pytest.raises(EnvironmentProblem, match="longer than"):
        fetch_in_child("a/x", cache_dir=cache.root, limit_s=2.0)


def test_a_child_that_fails_otherwise_is_an_environment_problem(
    cache: WeightsCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(EnvironmentProblem, match="ended with code 1"):
        fetch_in_child("a/x", cache_dir=cache.root)


def test_the_fetcher_gets_the_token_and_the_model_child_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "HF_TOKEN",
        "HF_ENDPOINT",
        "https_proxy",
        "OPENAI_API_KEY",
        "SPYRE_FACTORY_DATABASE_URL",
        "PYTHONPATH",
    ):
        monkeypatch.setenv(name, "canary")
    fetcher, child = fetcher_env(tmp_path), children_env(tmp_path)
    assert fetcher["HF_TOKEN"] == "canary"
    assert {k for k, v in fetcher.items() if v == "canary"} == {"HF_TOKEN", "HF_ENDPOINT", "https_proxy"}
    assert "canary" not in child.values()
    assert (child["HF_HUB_OFFLINE"], child["TRANSFORMERS_OFFLINE"], child["HOME"]) == ("1", "1", str(tmp_path))


def test_a_model_child_really_sees_only_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "canary")
    code = "import json, os, pathlib; print(json.dumps([dict(os.environ), str(pathlib.Path.home())]))"
    environment = children_env(tmp_path, threads=1, extra={"SPYRE_SIM_PROFILE": "p"})
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, timeout=60, check=True)
    seen, home = json.loads(result.stdout)
    assert home == str(tmp_path)
    assert (seen["OMP_NUM_THREADS"], seen["SPYRE_SIM_PROFILE"]) == ("1", "p")
    assert "canary" not in seen.values()


def test_a_child_imports_the_code_of_its_parent(tmp_path: Path) -> None:
    code = "import adapters, pipeline; print(adapters.__file__, pipeline.__file__)"
    environment = children_env(tmp_path)
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, timeout=60, check=True)
    assert result.stdout.decode().split() == [str(adapters.__file__), str(pipeline.__file__)]


@pytest.mark.parametrize("name", ["HF_TOKEN", "MY_API_KEY", "HF_HUB_OFFLINE", "HOME", "SPYRE_FACTORY_DATABASE_URL"])
def test_extra_cannot_undo_the_isolation(tmp_path: Path, name: str) -> None:
    with pytest.raises(EnvironmentProblem, match=name):
        children_env(tmp_path, extra={name: "x"})


def _in_bubblewrap(arguments: list[str], cache: Path, hub: LocalHub) -> dict[str, Any]:
    fetcher = [sys.executable, "-m", "pipeline.weights.fetch_child", "--model", "a/x", "--cache", str(cache)]
    command = ["bwrap", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *arguments, *fetcher]
    environment = {**fetcher_env(cache.parent), "HF_ENDPOINT": hub.url}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 1, result.stderr
    return json.loads(result.stdout)["error"]


@pytest.mark.sandbox
def test_a_really_full_disk_is_an_environment_problem(
    cache: WeightsCache, serve: Serve, hub: LocalHub, weights: Any
) -> None:
    serve(files={"model.safetensors": weights(20_000)})
    cache.root.mkdir()
    error = _in_bubblewrap(["--size", "65536", "--tmpfs", str(cache.root)], cache.root, hub)
    assert (error["code"], error["kind"]) == ("environment_problem", None)
    assert "do not fit the disk" in error["message"]


@pytest.mark.sandbox
def test_a_disk_that_fills_up_while_writing_is_an_environment_problem(
    cache: WeightsCache, serve: Serve, hub: LocalHub, weights: Any
) -> None:
    serve(files={"model.safetensors": weights(20_000)})
    cache.root.mkdir()
    (cache.root.parent / "sitecustomize.py").write_text(
        "import shutil\nusage = shutil.disk_usage\nshutil.disk_usage = lambda path: usage(path)._replace(free=10**12)\n"
    )
    small = ["--setenv", "PYTHONPATH", str(cache.root.parent), "--size", "65536", "--tmpfs", str(cache.root)]
    error = _in_bubblewrap(small, cache.root, hub)
    assert error["code"] == "environment_problem"
    assert "the disk is full" in error["message"]


@pytest.mark.sandbox
def test_a_read_only_data_directory_is_an_environment_problem(
    cache: WeightsCache, serve: Serve, hub: LocalHub, stored: Callable[[], set[str]]
) -> None:
    serve()
    cache.root.mkdir()
    error = _in_bubblewrap(["--ro-bind", str(cache.root), str(cache.root)], cache.root, hub)
    assert (error["code"], error["kind"]) == ("environment_problem", None)
    assert "read-only" in error["message"]
    assert stored() == set()
