"""The Hub client against the local Hub, with the real `huggingface_hub`."""

from __future__ import annotations

import json
from collections.abc import Callable

import huggingface_hub.constants
import pytest

from pipeline.catalogue import hub as hub_module
from pipeline.catalogue.entry import WeightsForm
from pipeline.catalogue.hub import HubClient, hub_client, pin
from pipeline.catalogue.local_hub import Fault, HubModel, LocalHub
from pipeline.catalogue.starter import find_starter
from pipeline.errors import CheckpointProblem, EnvironmentProblem, NotFound
from pipeline.inspection import inspect_checkpoint

Serve = Callable[..., HubModel]


def test_listing_merges_both_pipeline_tags_by_downloads(client: HubClient, serve: Serve) -> None:
    serve("a/least", downloads=1, pipeline_tag="feature-extraction")
    serve("a/most", downloads=30, pipeline_tag="sentence-similarity")
    serve("a/middle", downloads=20, pipeline_tag="feature-extraction")
    serve("a/other", downloads=99, pipeline_tag="text-generation")
    rows = client.list_top(2)
    assert [(e.rank, e.model_id, e.downloads) for e in rows] == [(1, "a/most", 30), (2, "a/middle", 20)]


def test_every_listed_row_is_pinned_and_described(client: HubClient, serve: Serve) -> None:
    model = serve("a/x", downloads=5, likes=2, library_name="transformers", gated="manual")
    (row,) = client.list_top(10)
    assert row.revision == model.commit("main")
    assert len(row.revision) == 40
    assert (row.likes, row.library, row.model_type, row.architectures) == (2, "transformers", "bert", ("BertModel",))
    assert row.gated
    assert row.weights_form is WeightsForm.SAFETENSORS


def test_pages_are_followed_to_the_end(online: None, serve: Serve, hub: LocalHub) -> None:
    hub.router.page = 3
    for number in range(8):
        serve(f"a/m{number}", downloads=number)
    rows = HubClient(hub.url).list_top(8)
    assert [e.model_id for e in rows] == [f"a/m{n}" for n in range(7, -1, -1)]
    assert any("cursor" in seen.path for seen in hub.seen)


def test_a_model_under_both_tags_is_one_row(client: HubClient, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "PIPELINE_TAGS", ("sentence-similarity", "sentence-similarity"))
    serve("a/x")
    assert len(client.list_top(5)) == 1


@pytest.mark.parametrize(
    ("files", "kind", "word"),
    [
        ({"model.safetensors": None, "model.gguf": b"g"}, "no_native_weights", "GGUF"),
        ({"model.safetensors": None, "onnx/model.onnx": b"o"}, "no_native_weights", "ONNX"),
        ({"model.safetensors": None, "adapter_model.safetensors": b"p"}, "no_native_weights", "PEFT"),
        ({"config.json": None}, "unknown_architecture", "config.json"),
    ],
)
def test_what_the_listing_can_decide_is_dropped_with_a_reason(
    client: HubClient, serve: Serve, files: dict[str, bytes | None], kind: str, word: str
) -> None:
    serve("a/x", files)
    (row,) = client.list_top(5)
    assert row.dropped_kind == kind
    assert row.dropped_reason is not None
    assert word in row.dropped_reason
    assert "'a/x'" in row.dropped_reason


def test_an_empty_listing_is_an_environment_problem(client: HubClient) -> None:
    with pytest.raises(EnvironmentProblem, match="lists no embedding models"):
        client.list_top(5)


@pytest.mark.parametrize(
    ("fault", "word"), [(Fault.ERROR, "503"), (Fault.BUSY, "too many"), (Fault.UNAUTHORISED, "HF_TOKEN")]
)
def test_refusals_of_the_hub_are_environment_problems(
    client: HubClient, serve: Serve, hub: LocalHub, fault: Fault, word: str
) -> None:
    serve("a/x")
    hub.misbehave(fault)
    for call in (lambda: client.list_top(5), lambda: client.listing("a/x")):
        with pytest.raises(EnvironmentProblem, match=word):
            call()


def test_an_error_on_a_later_page_loses_the_whole_listing(
    client: HubClient, serve: Serve, hub: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub.utils._http as client_http

    monkeypatch.setattr(client_http.time, "sleep", lambda seconds: None)
    serve("a/x")
    probe_done = []
    monkeypatch.setattr(HubClient, "probe", lambda self: probe_done.append(hub.misbehave(Fault.ERROR)))
    with pytest.raises(EnvironmentProblem, match="503"):
        client.list_top(5)
    assert probe_done


def test_a_hub_that_is_down_is_known_at_once(client: HubClient, hub: LocalHub) -> None:
    hub.stop()
    for call in (lambda: client.list_top(5), lambda: client.listing("a/x")):
        with pytest.raises(EnvironmentProblem, match="cannot be reached"):
            call()


def test_a_hub_that_does_not_answer_in_time_is_an_environment_problem(
    client: HubClient, serve: Serve, hub: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "SMALL_FILE_TIMEOUT_S", 0.05)
    hub.delay_s = 5.0
    serve("a/x")
    hub.misbehave(Fault.SLOW)
    with pytest.raises(EnvironmentProblem, match="did not answer in time"):
        client.list_top(5)


def test_offline_mode_is_an_environment_problem(client: HubClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(EnvironmentProblem, match="HF_HUB_OFFLINE"):
        client.list_top(5)


def test_an_unknown_model_is_not_found_and_names_it(client: HubClient, serve: Serve) -> None:
    with pytest.raises(NotFound, match="'a/missing' is not on the Hub"):
        client.listing("a/missing")
    serve("a/x")
    with pytest.raises(NotFound, match="no such revision"):
        client.listing("a/x", "0" * 40)


def test_a_bare_401_means_missing_to_the_anonymous_and_a_bad_token_to_others(serve: Serve, hub: LocalHub) -> None:
    serve("a/x")
    hub.misbehave(Fault.HIDDEN, "a/x")
    with pytest.raises(NotFound, match="or is private"):
        HubClient(hub.url).listing("a/x")
    with pytest.raises(EnvironmentProblem, match="HF_TOKEN is not accepted"):
        HubClient(hub.url, "hf_old").listing("a/x")


def test_a_gated_model_is_the_models_problem(client: HubClient, serve: Serve, hub: LocalHub) -> None:
    serve("a/x", gated="manual")
    found = inspect_checkpoint(client.source("a/x"))
    assert found.problem is not None
    assert found.problem.kind == "gated"
    hub.misbehave(Fault.GATED, "a/x")
    with pytest.raises(CheckpointProblem) as caught:
        client.listing("a/x")
    assert caught.value.kind == "gated"


def test_a_granted_token_opens_a_gated_model(serve: Serve, hub: LocalHub) -> None:
    hub.token = "hf_right"
    serve("a/x", gated="auto")
    found = inspect_checkpoint(HubClient(hub.url, "hf_right").source("a/x"))
    assert found.problem is None
    with pytest.raises(EnvironmentProblem, match="HF_TOKEN is not accepted"):
        HubClient(hub.url, "hf_wrong").listing("a/x")


def test_endpoint_and_token_come_from_the_environment_and_nothing_else_is_sent(
    serve: Serve, hub: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve("a/x")
    monkeypatch.setenv("HF_ENDPOINT", hub.url + "/")
    hub_client().listing("a/x")
    assert {seen.token for seen in hub.seen} == {None}
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    hub_client().listing("a/x")
    assert hub.seen[-1].token == "hf_mine"
    monkeypatch.delenv("HF_ENDPOINT")
    assert hub_client().endpoint == "https://huggingface.co"


def test_the_inspection_of_a_hub_model_reads_small_files_only(client: HubClient, serve: Serve, hub: LocalHub) -> None:
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    pooling = json.dumps({"pooling_mode_cls_token": True}).encode()
    serve("a/x", {"modules.json": json.dumps(modules).encode(), "1_Pooling/config.json": pooling})
    found = inspect_checkpoint(client.source("a/x"))
    assert (found.problem, found.chain.pooling, found.native_class) == (None, ("cls",), "BertModel")
    read = {seen.path.rpartition("/")[2] for seen in hub.seen if "/resolve/" in seen.path}
    assert read <= {"config.json", "modules.json", "sentence_bert_config.json", "tokenizer_config.json"}


def test_a_kept_connection_that_broke_is_tried_once_more(client: HubClient, serve: Serve, hub: LocalHub) -> None:
    model = serve("a/x")
    hub.misbehave(Fault.TRUNCATED, "a/x", times=1)
    assert client.read_small("a/x", model.commit("main"), "config.json") is not None


def test_pinning_a_starter_entry_adds_its_revision(client: HubClient, serve: Serve) -> None:
    entry = find_starter("sentence-transformers/all-MiniLM-L6-v2")
    assert entry is not None
    model = serve(entry.model_id)
    pinned = pin(entry, client)
    assert (pinned.revision, pinned.identity) == (model.commit("main"), model.commit("main"))
    assert entry.identity.startswith("unpinned-")
