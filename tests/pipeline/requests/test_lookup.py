"""What no catalogue lists comes from the Hub or from a configuration that was sent; the Hub's absence has remedies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeline.catalogue.hub import HubClient
from pipeline.catalogue.local_hub import LocalHub, model_from_entry
from pipeline.requests.errors import BadConfig, HubUnreachable
from pipeline.requests.lookup import entry_from_config, entry_from_hub
from pipeline.sweeps.errors import UnknownModel


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)


def test_the_hub_names_the_commit_and_gives_the_configuration(entry: Callable) -> None:
    with LocalHub([model_from_entry(entry("a/one"))]) as hub:
        found = entry_from_hub("a/one", None, HubClient(hub.url))
        again = entry_from_hub("a/one", found.revision, HubClient(hub.url))
    assert found.config is not None
    assert found.config["model_type"] == found.model_type == "bert"
    assert found.revision is not None
    assert (len(found.revision), found.rank) == (40, 0)
    assert again == found


def test_a_model_the_hub_does_not_have_is_unknown(entry: Callable) -> None:
    with LocalHub([model_from_entry(entry("a/one"))]) as hub:
        with pytest.raises(UnknownModel, match="a/none"):
            entry_from_hub("a/none", None, HubClient(hub.url))
        with pytest.raises(UnknownModel, match="revision"):
            entry_from_hub("a/one", "0" * 40, HubClient(hub.url))


def test_a_hub_out_of_reach_names_both_remedies() -> None:
    with pytest.raises(HubUnreachable) as caught:
        entry_from_hub("a/one", None, HubClient("http://127.0.0.1:9"))
    assert "HF_ENDPOINT" in str(caught.value)
    assert "`config`" in str(caught.value)


def test_a_configuration_is_named_by_its_content() -> None:
    first = entry_from_config({"model_type": "bert", "hidden_size": 8})
    assert first.model_id == entry_from_config({"hidden_size": 8, "model_type": "bert"}).model_id
    assert first.model_id != entry_from_config({"model_type": "bert", "hidden_size": 16}).model_id
    assert first.model_id.startswith("local/config-")


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ({}, "model_type"),
        ({"model_type": 7}, "model_type"),
        ({"model_type": "bert", "eps": float("nan")}, "not finite"),
        ({"model_type": "bert", "x": "a\0"}, "NUL"),
        ({"model_type": "bert", "x": "\ud800"}, "Unicode"),
        ({"model_type": "bert", "x": deep(100)}, "deeper"),
        ({"model_type": "bert", "x": "y" * 300_000}, "bytes"),
    ],
)
def test_a_configuration_that_no_database_would_take_is_refused(config: dict[str, Any], what: str) -> None:
    with pytest.raises(BadConfig, match=what):
        entry_from_config(config)
