"""Profiles and settings in words: no value of Python's own stands on a page, and of lists only what differs."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from api.pages.labels import breakable, plain_value
from api.pages.profiles import told
from sim_backend.profiles import list_profiles


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, "yes"),
        (None, "not set"),
        ({}, "not set"),
        (60.0, "60"),
        ({"log": 30}, "log: 30"),
        (["a", False], "a, no"),
    ],
)
def test_a_value_is_told_in_words(value: object, words: str) -> None:
    assert plain_value(value) == words


def test_a_name_breaks_after_its_dots_only_and_stays_escaped() -> None:
    assert breakable("a.b_<i>") == "a.<wbr>b_<wbr>&lt;i&gt;"


@pytest.mark.parametrize(
    ("key", "a", "b", "words"),
    [
        ("fusions.ops", ["x", "y"], ["y", "z"], ("x", "z")),
        ("fusions.ops", ["x"], ["x", "y"], ("nothing more", "y")),
        ("errata.E-01", None, {}, ("–", "on")),
        ("copies.refused", {}, {"int32": "x"}, ("none", "int32: x")),
    ],
)
def test_a_difference_is_told_in_words(key: str, a: object, b: object, words: tuple[str, str]) -> None:
    assert told(key, a, b) == words


def test_no_page_of_profiles_or_settings_shows_a_value_of_python(client: TestClient) -> None:
    first, last = list_profiles()[0], list_profiles()[-1]
    for path in ("/profiles", f"/profiles/{first}", f"/profiles/compare?a={first}&b={last}", "/settings"):
        page = client.get(path, headers={"Accept": "text/html"}).text
        for word in ("[&#39;", "{&#39;", ">True<", ">None<", ">{}<"):
            assert word not in page, (path, word)
